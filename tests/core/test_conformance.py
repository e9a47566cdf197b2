"""The conformance suite passes a renderer that keeps the contract, and fails each of these that don't, by the right check."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import toy
from rllm_renderer_template import SeamBridge

from rllm_renderer_core.testing import RendererConformance


@pytest.fixture(scope="module")
def renderer():
    return toy.ToyRenderer()


class TestToy(RendererConformance):
    oracle = SeamBridge
    needs_no_lock = True
    marker_text = "text"

    def reference(self, messages, tools, add_generation_prompt):
        return toy.ToyRenderer().render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt)


FAILS = {
    "DropsATokenOfTheDelta": ("the_delta_is_that_of_a_full_render", "doesn't start right behind the turn's close"),
    "DropsATokenOfThePrompt": ("a_bridge_is_p_and_c_and_more_or_none", "doesn't start with the prompt and completion"),
    "EncodesTheCompletionAgain": ("a_bridge_is_p_and_c_and_more_or_none", "doesn't start with the prompt and completion"),
    "EncodesThePromptAgainInPlace": ("a_bridge_is_p_and_c_and_more_or_none", "doesn't start with the prompt and completion"),
    "LosesAToolResult": ("generated_turns_keep_the_contract", "isn't how the whole conversation, rendered, ends"),
    "RendersAssistantTextAgain": ("the_delta_is_that_of_a_full_render", "the delta"),
    "BridgesWithoutOpener": ("the_delta_is_that_of_a_full_render", "isn't how the whole conversation, rendered, ends"),
    "AddsASecondSystemBlock": ("the_delta_is_that_of_a_full_render", "isn't how the whole conversation, rendered, ends"),
    "NeverBridges": ("it_bridges", "declared as a bridge, but declined"),
    "BridgesUndeclared": ("it_bridges", "bridged, though declared not to"),
    "ChangesMessages": ("inputs_are_never_changed", "the bare renderer changed its input"),
    "ChangesToolsDeepInside": ("inputs_are_never_changed", "changed its input"),
    "ExtendsThePromptInPlace": ("bridge_inputs_are_never_changed", "bridge_to_next_turn changed its input"),
    "NeverTheSameTwice": ("inputs_are_never_changed", "the second render differs"),
    "SharesABuffer": ("threads_need_no_lock", "16 threads give other results than one"),
    "BelongsToOneThread": ("threads_give_what_one_gives", "made in another thread"),
    "CrashesInParse": ("parse_never_raises", "chr() arg not in range"),
    "ParsesToATuple": ("parse_never_raises", "ParsedResponse"),
    "LosesTheTextInParse": ("parse_reads_what_was_rendered", "isn't in its content"),
    "CannotBePickled": ("pickling_keeps_ids_and_resolution", "pickle"),
    "ForgetsAnOptionInPickling": ("pickling_keeps_ids_and_resolution", "differs after the round trip"),
    "DropsTheSystemMessage": ("every_message_shows_in_the_ids", "message 0 (system): its text doesn't show"),
    "IgnoresDeclarations": ("declarations_show_or_are_refused", "tool 0 doesn't show, and isn't refused"),
    "IgnoresDeclarationsDeclared": ("declarations_show_or_are_refused", "DID NOT RAISE"),
    "DropsCalls": ("calls_have_one_meaning_in_all_forms", "the name of its tool call 0 doesn't show"),
    "StopsAreText": ("stop_ids_are_ints", "returned from get_stop_token_ids what isn't a list of ids"),
    "ClosesNothing": ("a_closed_turn_ends_with_a_stop", "no stop token between"),
    "AttributesTooLittle": ("render_gives_ids_with_attribution", "only assistants sample"),
    "DiffersFromItsReference": ("render_equals_the_reference", "differs from the reference"),
    "TurnsMarkersIntoControlTokens": ("marker_text_is_reported", "declared 'text'"),
}
"""Wrong renderers, the check that must fail, and what it must say."""
WHOLE = ("DeclaresLittle", "RefusesDeclarations")
"""Renderers that no check may fail."""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Class and check to what went wrong or why it was skipped: of each wrong renderer the check that must fail."""
    out = tmp_path_factory.mktemp("wrong") / "report.xml"
    file = pathlib.Path(toy.__file__).with_name("wrong_renderers.py")
    chosen = [f"{file}::Test{name}::test_{check}" for name, (check, _) in FAILS.items()]
    chosen += [f"{file}::Test{name}" for name in WHOLE]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={out}", *chosen]
    subprocess.run(command, cwd=file.parents[2], capture_output=True, timeout=300)
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for case in ElementTree.parse(out).iter("testcase"):
        key = (case.attrib["classname"].rpartition(".Test")[2], case.attrib["name"].partition("[")[0].removeprefix("test_"))
        kinds = found.setdefault(key, {"failure": [], "skipped": [], "error": []})
        for outcome in case:
            if outcome.tag in kinds:
                kinds[outcome.tag].append(outcome.attrib["message"] + (outcome.text or ""))
    return found


@pytest.mark.parametrize("name", FAILS)
def test_suite_catches_a_renderer_that(report, name):
    check, message = FAILS[name]
    failures = report[name, check]["failure"] + report[name, check]["error"]
    assert failures, f"{check} passed"
    assert any(message in failure for failure in failures), failures


def test_suite_skips_what_is_not_declared_and_says_so(report):
    mine = {check: kinds for (name, check), kinds in report.items() if name == "DeclaresLittle"}
    assert not [kinds for kinds in mine.values() if kinds["failure"] or kinds["error"]]
    reasons = {reason.rpartition(": ")[2] for kinds in mine.values() for reason in kinds["skipped"]}
    declared = ("calls", "system_in_new", "users_in_a_row", "reasoning", "stop_token", "needs_no_lock")
    assert {f"TestDeclaresLittle declares {each}=False" for each in declared} <= reasons
    assert "TestDeclaresLittle has no reference" in reasons


def test_suite_passes_a_renderer_that_refuses_declarations_and_says_so(report):
    mine = {check: kinds for (name, check), kinds in report.items() if name == "RefusesDeclarations"}
    assert mine and not [kinds for kinds in mine.values() if kinds["failure"] or kinds["error"]]
