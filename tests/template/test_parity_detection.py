"""Detection on a toy format: who is tried, who wins, and what is said where nobody does."""

from __future__ import annotations

import json
import pickle

import pytest
from rllm_renderer_template.parity import comparison as parity
from rllm_renderer_template.parity import detection
from rllm_renderer_template.parity.bridges import BridgeOutcome
from rllm_renderer_template.parity.probes import OPENING, PROBES, TURN_SHAPES
from toy_template import TemplateTokenizer, plugin_source

from rllm_renderer_core import (
    NoBackendError,
    NoBridgeError,
    OptionError,
    RendererWarning,
    explain,
    resolve,
    select_backend,
)
from rllm_renderer_core.plugin import Query
from rllm_renderer_core.plugin.discovery import load_backends

pytestmark = pytest.mark.usefixtures("no_plugins")

WHITE = sum("whitespace" in probe.tags for probe in PROBES)
ALL = f"equal on {len(PROBES)} of {len(PROBES)} probes"
FALLBACK = "ignore::rllm_renderer_core.errors.RendererWarning"


def detect(tokenizer, **options):
    return detection.detect(load_backends()[0], Query("nobody/knows", tokenizer, **options))


# Who wins


def test_an_unknown_name_gets_the_renderer_that_equals_the_template(install):
    install("rllm-renderer-toy", source=plugin_source("trims", "right"))
    renderer = resolve("nobody/knows", TemplateTokenizer())
    assert (renderer.backend, renderer.name, renderer.has_bridge) == ("toy", "right", True)
    assert renderer.resolution.match == "parity" and renderer.resolution.reason == ALL
    assert renderer.resolution.hints == ()


def test_without_a_model_the_tokenizers_name_is_none_that_is_listed(install):
    install("rllm-renderer-toy", source=plugin_source("right", listed={"toy/one": "trims"}))
    assert resolve(None, TemplateTokenizer()).resolution.model == "nobody/knows"


def test_of_several_equals_the_first_in_the_backends_order_wins_and_all_are_listed(install):
    install("rllm-renderer-toy", source=plugin_source("never-bridges", "trims", "right"))
    resolution = resolve("nobody/knows", TemplateTokenizer()).resolution
    assert resolution.renderer == "never-bridges" and resolution.reason == f"{ALL}; so is toy:right"


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_backend_of_higher_priority_is_tried_first_and_the_other_not_at_all(install, order):
    for each in order:
        source = plugin_source("right", name=each, priority={"a": 70, "b": 60}[each])
        install(f"rllm-renderer-{each}", source=source)
    found = detect(TemplateTokenizer())
    assert [each.name for each in found.tried] == ["a:right"]
    assert resolve("nobody/knows", TemplateTokenizer()).backend == "a"


def test_the_next_backend_is_tried_where_the_first_has_none(install):
    install("rllm-renderer-a", source=plugin_source("trims", name="a", priority=70))
    install("rllm-renderer-b", source=plugin_source("right", name="b", priority=60))
    assert [each.name for each in detect(TemplateTokenizer()).tried] == ["a:trims", "b:right"]
    assert resolve("nobody/knows", TemplateTokenizer()).backend == "b"


def test_a_wrong_bridge_doesnt_win(install):
    install("rllm-renderer-toy", source=plugin_source("wrong-bridge"))
    found = detect(TemplateTokenizer())
    assert found.winner is None and found.tried[0].renders and not found.tried[0].passed
    odd = [each for each in found.tried[0].bridges if each.outcome is BridgeOutcome.DIFFERS]
    assert [each.shape for each in odd] == [shape.name for shape in TURN_SHAPES if shape.new[0]["role"] == "tool"]
    assert "and not on the bridge of 'one result'" in found.outcome


def test_a_bridge_that_declines_is_no_difference(install):
    install("rllm-renderer-toy", source=plugin_source("never-bridges"))
    found = detect(TemplateTokenizer())
    assert found.winner is not None
    assert {each.outcome for each in found.winner.bridges} == {BridgeOutcome.DECLINED}


def test_a_documented_difference_is_still_one(install):
    install("rllm-renderer-toy", source=plugin_source("trims", deviations={"whitespace": "on purpose"}))
    assert detect(TemplateTokenizer()).winner is None


def test_an_odd_order_of_roles_may_be_refused_and_is_named(install):
    install("rllm-renderer-toy", source=plugin_source("no-system-later"))
    found = detect(TemplateTokenizer())
    assert found.winner is not None
    assert found.outcome == f"equal on {len(PROBES) - 1} of {len(PROBES)} probes (the renderer refuses 1)"


def test_nothing_else_may_be_refused(install):
    install("rllm-renderer-toy", source=plugin_source("no-tools"))
    assert detect(TemplateTokenizer()).winner is None


def test_an_option_that_the_backend_cant_honour_is_no_match(install):
    install("rllm-renderer-toy", source=plugin_source("right"))
    toy = next(each for each in load_backends().registered if each.backend.name == "toy")
    found = detection.try_all(toy, Query("m", TemplateTokenizer(), thinking=True), parity.Budget())
    assert [each.error for each in found] == ["can't honour thinking=True"]


def test_a_candidate_that_cant_be_built_or_named_is_passed_over(install):
    install("rllm-renderer-toy", source=plugin_source("broken", "no-such", "right"))
    found = detect(TemplateTokenizer())
    assert [each.error for each in found.tried] == ["RuntimeError: no vocabulary", "isn't covered by its own name", ""]
    assert found.winner is found.tried[2]


def test_candidates_that_raise_are_passed_over(install):
    source = plugin_source("right", name="a", priority=70)
    source = source.replace("return [Coverage(name", "raise OSError('gone')\n        [(name")
    install("rllm-renderer-a", source=source)
    install("rllm-renderer-b", source=plugin_source("right", name="b"))
    found = detect(TemplateTokenizer())
    assert found.tried[0].error.endswith("candidates raised OSError: gone") and found.winner.name == "b:right"


# Who isn't asked


def test_a_listed_name_decides_before_any_template(install):
    install("rllm-renderer-toy", source=plugin_source("right", listed={"toy/one": "never-bridges"}))
    resolution = resolve("toy/one", TemplateTokenizer()).resolution
    assert (resolution.renderer, resolution.match) == ("never-bridges", "exact")


@pytest.mark.filterwarnings(FALLBACK)
def test_detect_false_switches_it_off(install):
    install("rllm-renderer-toy", source=plugin_source("right"))
    tokenizer = TemplateTokenizer()
    resolution = resolve("nobody/knows", tokenizer, detect=False).resolution
    assert resolution.backend == "chat-template" and resolution.hints == ()
    with pytest.raises(OptionError, match="detect must be one of"):
        resolve("nobody/knows", tokenizer, detect="yes")


@pytest.mark.parametrize("options", [{"backend": "chat-template"}, {"renderer": "chat-template"}])
def test_the_chat_template_that_was_asked_for_is_no_fallback(install, options):
    install("rllm-renderer-toy", source=plugin_source("right"))
    assert resolve("nobody/knows", TemplateTokenizer(), **options).backend == "chat-template"


def test_a_backend_that_was_asked_for_is_searched_alone(install):
    install("rllm-renderer-a", source=plugin_source("right", name="a", priority=70))
    install("rllm-renderer-b", source=plugin_source("right", name="b", priority=60))
    install("rllm-renderer-c", source=plugin_source("trims", name="c", priority=60))
    assert resolve("nobody/knows", TemplateTokenizer(), backend="b").backend == "b"
    with pytest.raises(NoBackendError, match="nearest is c:trims"):
        resolve("nobody/knows", TemplateTokenizer(), backend="c")


def test_names_alone_find_nothing(install):
    install("rllm-renderer-toy", source=plugin_source("right"))
    assert select_backend("nobody/knows", TemplateTokenizer()).backend == "chat-template"


# What is said


def test_the_fallback_says_who_came_nearest_and_where_it_differs(install):
    install("rllm-renderer-toy", source=plugin_source("trims", "no-tools"))
    with pytest.warns(RendererWarning, match="nearest is toy:trims") as caught:
        renderer = resolve("nobody/knows", TemplateTokenizer())
    assert renderer.resolution.match == "fallback"
    (hint,) = renderer.resolution.hints
    assert f"equal on {len(PROBES) - WHITE} of {len(PROBES)} probes, and not on 'white space at the edges': ' Be" in hint
    assert hint in str(caught[0].message)


def test_explain_says_what_the_template_decided(install):
    install("rllm-renderer-toy", source=plugin_source("right"))
    found = explain("nobody/knows", TemplateTokenizer())
    verdict = next(each for each in found.verdicts if each.backend == "toy")
    assert found.winner == "toy" and (verdict.verdict, verdict.match, verdict.reason) == ("covers", "parity", ALL)
    assert explain("nobody/knows").winner == "chat-template"
    assert "nearest is toy:right" not in str(explain("nobody/knows", TemplateTokenizer(), detect=False))


def test_explain_says_who_came_nearest(install):
    install("rllm-renderer-toy", source=plugin_source("trims"))
    found = explain("nobody/knows", TemplateTokenizer())
    assert found.winner == "chat-template" and "nearest is toy:trims" in found.reason


def test_require_bridge_is_met_by_a_renderer_that_was_found(install):
    install("rllm-renderer-toy", source=plugin_source("right"))
    assert resolve("nobody/knows", TemplateTokenizer(), require_bridge=True).has_bridge
    with pytest.raises(NoBridgeError, match="resolve with the tokenizer"):
        select_backend("nobody/knows", require_bridge=True, template_bridge=False)


def test_require_bridge_is_decided_when_the_tokenizer_is_loaded(install, monkeypatch):
    from rllm_renderer_core.resolving import resolver

    install("rllm-renderer-toy", source=plugin_source("right"))
    monkeypatch.setattr(resolver, "load_tokenizer", lambda model: TemplateTokenizer())
    assert resolve("nobody/knows", require_bridge=True).name == "right"


def test_require_bridge_fails_with_the_nearest(install):
    install("rllm-renderer-toy", source=plugin_source("trims"))
    with pytest.raises(NoBridgeError, match="nearest is toy:trims"):
        resolve("nobody/knows", TemplateTokenizer(), require_bridge=True, template_bridge=False)


# Templates that tell little


HALF = [list(probe.messages) for probe in PROBES if {"results", "order", "inline"} & probe.tags][: len(PROBES) // 2]


def refuses_half(messages):
    return "not this one" if messages in HALF else None


def refuses_most(messages):
    return "one message only" if len(messages) > 2 else None


def test_a_template_that_refuses_half_of_the_probes_is_matched_on_the_others(install):
    install("rllm-renderer-toy", source=plugin_source("trims", "right"))
    refused, accepted = len(HALF), len(PROBES) - len(HALF)
    assert accepted >= detection.LEAST_PROBES and abs(refused - accepted) <= 2
    renderer = resolve("nobody/knows", TemplateTokenizer(refuses_half))
    assert renderer.name == "right"
    assert renderer.resolution.reason == f"equal on {accepted} of {accepted} probes (the template refuses {refused})"


@pytest.mark.filterwarnings(FALLBACK)
def test_a_template_that_refuses_most_proves_too_little(install):
    install("rllm-renderer-toy", source=plugin_source("right"))
    (hint,) = resolve("nobody/knows", TemplateTokenizer(refuses_most)).resolution.hints
    assert hint.startswith("the chat template refuses ") and hint.endswith("ValueError: one message only")
    assert "which proves too little" in hint


def test_without_a_template_nothing_is_found(install):
    install("rllm-renderer-toy", source=plugin_source("right"))
    with pytest.raises(NoBackendError, match="the tokenizer has no chat template"):
        resolve("nobody/knows", TemplateTokenizer(template=""))


# Cost


def test_it_is_done_once_for_a_tokenizer(install):
    install("rllm-renderer-toy", source=plugin_source("trims", "right"))
    tokenizer = TemplateTokenizer()
    resolve("nobody/knows", tokenizer)
    renders = tokenizer.renders
    assert resolve("nobody/knows", tokenizer).name == "right"
    assert tokenizer.renders == renders


def test_another_plugin_is_another_search(install):
    tokenizer = TemplateTokenizer()
    install("rllm-renderer-a", source=plugin_source("trims", name="a"))
    assert detect(tokenizer).winner is None
    install("rllm-renderer-b", source=plugin_source("right", name="b"))
    assert detect(tokenizer).winner is not None


@pytest.mark.filterwarnings(FALLBACK)
def test_a_slow_tokenizer_stops_the_search(install, monkeypatch):
    install("rllm-renderer-a", source=plugin_source("trims", name="a", priority=70))
    install("rllm-renderer-b", source=plugin_source("right", name="b"))
    tokenizer = TemplateTokenizer()
    seconds = [0.0]
    monkeypatch.setattr(parity, "clock", lambda: seconds[0])
    render = tokenizer.apply_chat_template

    def slow(*arguments, **more):
        seconds[0] += 1.0
        return render(*arguments, **more)

    tokenizer.apply_chat_template = slow
    resolution = resolve("nobody/knows", tokenizer).resolution
    assert resolution.backend == "chat-template"
    assert resolution.hints == ("the search stopped after 10 s of rendering: a slow tokenizer",)
    # What wasn't finished isn't remembered: nothing stands in the way of a later search with more time.
    monkeypatch.setattr(parity, "clock", lambda: 0.0)
    assert resolve("nobody/knows", tokenizer).name == "right"


# Pins


def test_a_pin_reproduces_it_by_name_without_a_search(install, monkeypatch):
    install("rllm-renderer-toy", source=plugin_source("right"))
    pin = json.loads(json.dumps(resolve("nobody/knows", TemplateTokenizer()).resolution.to_dict()))
    monkeypatch.setattr(detection, "detect", None)
    renderer = resolve(pin=pin, tokenizer=TemplateTokenizer())
    assert renderer.resolution.to_dict() | {"reason": ""} == pin | {"reason": ""} and renderer.resolution.match == "parity"
    assert select_backend(pin=pin) == renderer.resolution


def test_it_survives_pickle(install):
    install("rllm-renderer-toy", source=plugin_source("right"))
    renderer = resolve("nobody/knows", TemplateTokenizer())
    again = pickle.loads(pickle.dumps(renderer))
    assert again.resolution == renderer.resolution and again.resolution.match == "parity"
    assert again.render_ids(OPENING) == renderer.render_ids(OPENING)


@pytest.mark.parametrize("kind", ["never-bridges", "wrong-bridge", "right"])
def test_strict_mode_changes_no_result(install, monkeypatch, kind):
    install("rllm-renderer-toy", source=plugin_source(kind))
    before = detect(TemplateTokenizer()).tried[0]
    monkeypatch.setenv("RLLM_RENDERER_STRICT", "1")
    after = detect(TemplateTokenizer()).tried[0]
    assert before.report == after.report
    assert [each.outcome for each in before.bridges] == [each.outcome for each in after.bridges]


def test_a_renderer_can_tell_a_probe_from_a_users_conversation(install):
    from toy import ToyRenderer

    from rllm_renderer_core.plugin import in_probe
    from rllm_renderer_core.testing import wrap

    class Listens(ToyRenderer):
        heard: tuple[bool, ...] = ()

        def render(self, messages, **more):
            self.heard += (in_probe.get(),)
            return super().render(messages, **more)

    bare = Listens()
    renderer = wrap(bare, TemplateTokenizer())
    renderer.render_ids(OPENING)
    assert bare.heard[0] is False  # then the core's own check that nothing is dropped
    parity.parity(renderer)
    assert set(bare.heard[1:]) == {True}
    renderer.render_ids(OPENING)
    assert bare.heard[-1] is False
