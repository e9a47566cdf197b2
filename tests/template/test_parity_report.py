"""Parity reports: what each outcome is, how it reads, and that nothing is rendered twice."""

from __future__ import annotations

import gc
import json
import pickle
import weakref

import pytest
from rllm_renderer_template.memory import remembered
from rllm_renderer_template.parity import comparison as parity
from rllm_renderer_template.parity.comparison import Budget, compare
from rllm_renderer_template.parity.probes import PROBES
from rllm_renderer_template.parity.report import Difference, Outcome
from toy_template import TemplateTokenizer, plugin_source

from rllm_renderer_core import OptionError, TokenizerError, resolve

WHITE = sum("whitespace" in probe.tags for probe in PROBES)

pytestmark = pytest.mark.usefixtures("no_plugins")


@pytest.fixture
def toy(install):
    """``toy("trims", deviations=...)``: the renderer of that kind on a tokenizer with the toy's template."""
    count = 0

    def make(kind, tokenizer=None, **more):
        nonlocal count
        count += 1
        install(f"rllm-renderer-toy{count}", source=plugin_source(name=f"toy{count}", **more))
        tokenizer = tokenizer or TemplateTokenizer()
        return resolve("some/model", tokenizer, backend=f"toy{count}", renderer=kind, parity="off")

    return make


def outcomes(report):
    return {each.probe: each.outcome for each in report.results if each.outcome is not Outcome.EQUAL}


def test_equal_on_every_probe(toy):
    report = parity.parity(toy("right"))
    assert report.equal == report.accepted == len(PROBES) and report.differences == () and report.complete
    assert report.summary() == f"equal on {len(PROBES)} of {len(PROBES)} probes"
    assert str(report).splitlines()[0] == f"toy1:right against the chat template: {report.summary()}"


def test_a_difference_shows_where_and_what(toy):
    report = parity.parity(toy("trims"))
    assert outcomes(report) == {
        "white space at the edges": Outcome.DIFFERS,
        "an answer that starts with a blank line": Outcome.DIFFERS,
        "texts that start with blank lines": Outcome.DIFFERS,
        "blank lines beside a call and before its result": Outcome.DIFFERS,
        "unicode and blank lines": Outcome.DIFFERS,
        "a result as JSON with edges": Outcome.DIFFERS,
    }
    first = report.differences[0].difference
    assert first.index == 2 and first.expected.startswith(" Be") and first.got.startswith("Be ")
    assert first.expected_ids[0] != first.got_ids[0]
    assert repr(first.expected) in str(report) and repr(first.got) in str(report)


def test_the_renderer_refuses(toy):
    report = parity.parity(toy("no-system-later"))
    assert outcomes(report) == {"a system message in the middle": Outcome.RENDERER_REFUSES}
    assert report.differences == ()
    assert "the system message must come first" in report.having(Outcome.RENDERER_REFUSES)[0].reason
    assert report.summary().endswith("(the renderer refuses 1)")


def test_the_template_refuses(toy):
    tokenizer = TemplateTokenizer(lambda messages: "no tools" if messages[-1]["role"] == "tool" else None)
    report = parity.parity(toy("right", tokenizer))
    refused = [probe.name for probe in PROBES if probe.messages[-1]["role"] == "tool"]
    assert outcomes(report) == dict.fromkeys(refused, Outcome.TEMPLATE_REFUSES)
    assert report.accepted == report.equal == len(PROBES) - len(refused)
    assert "no tools" in report.having(Outcome.TEMPLATE_REFUSES)[0].reason


@pytest.mark.parametrize("key", ["white space at the edges", "whitespace"])
def test_a_documented_difference_is_said_differently(toy, key):
    report = parity.parity(toy("trims", deviations={key: "text is trimmed on purpose"}))
    declared = report.having(Outcome.DECLARED)
    assert declared[0].probe == "white space at the edges" and declared[0].reason == "text is trimmed on purpose"
    assert declared[0].difference is not None
    assert len(declared) + len(report.differences) == WHITE and declared[0] not in report.differences
    assert report.equal == len(PROBES) - WHITE


def test_a_report_survives_pickle_and_json(toy):
    report = parity.parity(toy("trims"))
    assert pickle.loads(pickle.dumps(report)) == report
    data = json.loads(json.dumps(report.to_dict()))
    assert data["equal"] == len(PROBES) - WHITE and data["accepted"] == len(PROBES)
    result = next(each for each in data["results"] if each["probe"] == "white space at the edges")
    assert result["outcome"] == "differs" and result["difference"]["index"] == 2


def test_a_report_is_made_once(toy):
    renderer = toy("right")
    report = parity.parity(renderer)
    renders = renderer.tokenizer.renders
    assert parity.parity(renderer) is report
    assert renderer.tokenizer.renders == renders


def test_what_the_template_gives_is_shared_by_all_renderers(toy):
    tokenizer = TemplateTokenizer()
    parity.parity(toy("right", tokenizer))
    renders = tokenizer.renders
    assert parity.parity(toy("trims", tokenizer)).differences
    assert tokenizer.renders == renders


def test_another_template_is_another_report(toy):
    renderer = toy("right")
    parity.parity(renderer)
    renderer.tokenizer.chat_template = "toy, changed"
    renderer.tokenizer.refuses = lambda messages: "changed"
    assert parity.parity(renderer).accepted == 0


def test_nothing_keeps_the_tokenizer_alive(toy):
    renderer = toy("trims")
    parity.parity(renderer)
    gone = weakref.ref(renderer.tokenizer)
    del renderer
    gc.collect()
    assert gone() is None


def test_a_tokenizer_that_cant_be_referred_to_is_compared_each_time():
    class Slotted:
        __slots__ = ()
        chat_template = "x"

    remembered(Slotted(), "template")["key"] = 1
    assert remembered(Slotted(), "template") == {}


def test_without_a_template_there_is_nothing_to_compare_with(toy):
    tokenizer = TemplateTokenizer(template="")
    with pytest.raises(TokenizerError, match="no chat template"):
        parity.parity(toy("right", tokenizer))


def test_an_option_without_a_variable_in_the_template_cant_be_compared(install):
    pytest.importorskip("jinja2")
    install("rllm-renderer-toy", source=plugin_source(options=["thinking"]))
    renderer = resolve("m", TemplateTokenizer(), renderer="right", backend="toy", thinking=True, parity="off")
    with pytest.raises(OptionError, match="no variable"):
        parity.parity(renderer)


def test_a_spent_budget_stops_the_comparison(monkeypatch):
    now = iter(range(0, 1000, 2))
    monkeypatch.setattr(parity, "clock", lambda: float(next(now)))
    results = tuple(compare(lambda probe: [1], lambda probe: [1], None, budget=Budget(5)))
    assert [each.outcome for each in results[:4]] == [Outcome.EQUAL] * 3 + [Outcome.NOT_TRIED]
    assert results[-1].reason == "5 s were over"


def test_sequences_of_different_length_differ_at_the_end_of_the_shorter():
    class Letters:
        def decode(self, ids, **_):
            return "".join(map(chr, ids))

    difference = Difference.between([97, 98, 99], [97, 98], Letters())
    assert (difference.index, difference.expected, difference.got) == (2, "abc", "ab")
    assert (difference.expected_ids, difference.got_ids) == ((99,), ())


def test_ids_stand_for_text_that_cant_be_decoded():
    assert Difference.between([7], [8], None).expected == "7"
