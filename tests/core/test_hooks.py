"""The hooks that ask about one tokenizer, ``rllm_renderer_detect`` and ``rllm_renderer_judge``, and what goes without them."""

from __future__ import annotations

import warnings

import pytest
import toy
from plugin_source import plugin

from rllm_renderer_core import (
    NoBackendError,
    ParityError,
    PinMismatchError,
    PluginError,
    explain,
    plugins,
    resolve,
    select_backend,
)

pytestmark = pytest.mark.usefixtures("core_alone")

MODEL = "toy/toy-1"

HOOKS = """
from dataclasses import replace
from rllm_renderer_core import Match, Query, hookimpl
from rllm_renderer_core.plugin import Detected
from rllm_renderer_core.plugin.hooks import ask

SAID = []

class Judged:
    def __init__(self, renderer, backends):
        self.renderer, self.backends = renderer, backends
    def better(self, *, need_bridge):
        {better}
    def enforce(self, mode):
        SAID.append((self.renderer.name, mode))
        {enforce}
    def faults(self):
        return ["a fault"]
    def written(self):
        return {written!r}
"""
DETECT = """
@hookimpl
def rllm_renderer_detect(query, backends):
    {detect}
    for registered in backends:
        coverage = ask(registered, replace(query, renderer="toy"))
        if coverage is not None:
            return Detected(registered, replace(coverage, match=Match.PARITY), "equal on every probe")
    return Detected(None, None, "none is equal")
"""
JUDGE = """
@hookimpl
def rllm_renderer_judge(renderer, query, backends):
    {judge}
    return Judged(renderer, backends)
"""


def hooks(*, detect="pass", judge="pass", better="return None", enforce="pass", written="d1"):
    """A plugin with both hooks; with one where the other is ``None``."""
    source = HOOKS.format(better=better, enforce=enforce, written=written)
    source += "" if detect is None else DETECT.format(detect=detect)
    return source + ("" if judge is None else JUDGE.format(judge=judge))


class Templated(toy.ToyTokenizer):
    chat_template = "{{ messages }}"
    name_or_path = "nobody/knows"


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(warning.message) for warning in caught]


# Detection

FAILURES = {
    "raises": ("raise ValueError('oops')", "ValueError: oops"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "a text": ("return 'toy'", "it must return {} or None, not 'toy'"),
    "nonsense": (
        "from rllm_renderer_core.plugin import Detected; return Detected('toy', None, 'r')",
        "Detected.registered must be a Registered | None, not 'toy'",
    ),
    "a bool": ("return True", "it must return {} or None, not True"),
}


def test_a_detected_renderer_serves_a_name_that_nobody_covers(install):
    install("rllm-renderer-a", source=plugin("a"))
    install("rllm-renderer-h", source=hooks())
    resolution = resolve("nobody/knows", Templated()).resolution
    assert (resolution.backend, resolution.match, resolution.reason) == ("a", "parity", "equal on every probe")
    with pytest.raises(NoBackendError):
        resolve("nobody/knows", Templated(), detect=False)


def test_a_plugin_with_only_a_detecting_hook_is_loaded_and_adds_no_backend(install):
    install("rllm-renderer-a", source=plugin("a"))
    install("rllm-renderer-h", source=hooks(judge=None))
    assert {info.name: (info.state, info.backends) for info in plugins(check=True)} == {
        "a": ("loaded", ("a",)),
        "h": ("loaded", ()),
    }
    assert resolve("nobody/knows", Templated()).resolution.match == "parity"


def test_the_reason_why_nothing_is_detected_is_in_the_error(install):
    install("rllm-renderer-h", source=hooks())
    with pytest.raises(NoBackendError, match="no backend covers it; none is equal"):
        resolve("nobody/knows", Templated())


@pytest.mark.parametrize("name", FAILURES)
def test_a_detecting_hook_that_fails_is_reported_and_the_next_one_asked(install, name):
    body, said = FAILURES[name]
    install("rllm-renderer-a", source=plugin("a"))
    install("rllm-renderer-bad", source=hooks(detect=body, judge=None))
    install("rllm-renderer-good", source=hooks(judge=None))
    renderer, texts = warned(lambda: resolve("nobody/knows", Templated()))
    assert renderer.resolution.match == "parity"
    assert [text for text in texts if "plugin 'bad' of rllm-renderer-bad 1.0: rllm_renderer_detect raised" in text]
    assert any(said.format("Detected") in text for text in texts)


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("hook", ["detect", "judge"])
def test_a_hook_that_fails_raises_under_strict(install, monkeypatch, hook, name):
    body, said = FAILURES[name]
    monkeypatch.setenv("RLLM_RENDERER_STRICT", "1")
    install("rllm-renderer-a", source=plugin("a"))
    install("rllm-renderer-bad", source=hooks(**{hook: body}))
    kind = "Detected" if hook == "detect" else "Judgement"
    if (hook, name) == ("judge", "nonsense"):
        said = "it must return {} or None, not Detected("
    with pytest.raises(PluginError, match=r"plugin 'bad' of rllm-renderer-bad 1\.0") as caught:
        resolve("nobody/knows" if hook == "detect" else MODEL, Templated())
    assert said.format(kind) in str(caught.value) and caught.value.plugin == "bad"


def test_an_interrupt_in_a_hook_passes(install):
    install("rllm-renderer-bad", source=hooks(detect="raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        resolve("nobody/knows", Templated())


def test_a_hook_that_says_nothing_leaves_it_to_the_next_one(install):
    install("rllm-renderer-a", source=plugin("a"))
    install("rllm-renderer-first", source=hooks(detect="return None", judge="return None"))
    install("rllm-renderer-second", source=hooks())
    (renderer, texts) = warned(lambda: resolve("nobody/knows", Templated()))
    assert renderer.resolution.match == "parity" and not texts


def test_an_argument_that_no_hook_has_is_a_broken_plugin(install):
    install("rllm-renderer-bad", source=hooks(judge=None).replace("(query, backends)", "(query, renderers)"))
    assert [info.state for info in plugins(check=True)] == ["broken"]


# Judgement


def said(distribution):
    import sys

    name = f"plugin_{distribution.replace('-', '_')}_"
    return next(module for key, module in sys.modules.items() if key.startswith(name)).SAID


def test_a_winner_by_name_is_judged_once_by_the_first_plugin_that_can(install):
    install("rllm-renderer-a", source=plugin("a"))
    install("rllm-renderer-h", source=hooks(detect=None))
    _, texts = warned(lambda: resolve(MODEL, Templated(), parity="warn"))
    assert said("rllm-renderer-h") == [("toy", "warn")] and not texts
    warned(lambda: resolve(MODEL, Templated(), parity="off"))
    warned(lambda: resolve(MODEL, toy.ToyTokenizer()))
    assert len(said("rllm-renderer-h")) == 1


BETTER = """return Detected(self.backends[-1], ask(self.backends[-1], Query("x", renderer="toy")), "it is equal")"""


def test_a_better_renderer_takes_the_place_of_one_that_won_by_name(install):
    install("rllm-renderer-high", source=plugin("high", priority=90))
    install("rllm-renderer-low", source=plugin("low", priority=5))
    install("rllm-renderer-z", source=hooks(better=BETTER))
    resolution = resolve(MODEL, Templated()).resolution
    assert (resolution.backend, resolution.reason) == ("low", "it is equal")
    assert resolve(MODEL, Templated(), parity="warn").backend == "high"
    assert resolve(MODEL, Templated(), backend="high", renderer="toy").backend == "high"
    table = explain(MODEL, Templated())
    assert table.winner == "low" and "a fault" in table.reason


def test_what_a_judgement_refuses_is_refused(install):
    install("rllm-renderer-a", source=plugin("a"))
    source = hooks(enforce="if mode == 'error': raise ParityError('it differs')").replace(
        "from rllm_renderer_core import Match", "from rllm_renderer_core import ParityError, Match"
    )
    install("rllm-renderer-h", source=source)
    assert resolve(MODEL, Templated()).backend == "a"
    with pytest.raises(ParityError, match="it differs"):
        resolve(MODEL, Templated(), parity="error")


@pytest.mark.parametrize("method", ["judge", "better", "enforce"])
@pytest.mark.parametrize("body", ["raise ValueError('oops')", "raise SystemExit(3)", "return 3 + 'x'"])
def test_a_judgement_that_fails_is_reported_and_the_renderer_is_not_taken_as_checked(install, method, body):
    install("rllm-renderer-a", source=plugin("a"))
    install("rllm-renderer-bad", source=hooks(**{method: body}))
    renderer, texts = warned(lambda: resolve(MODEL, Templated()))
    assert renderer.backend == "a"
    failed, unchecked = texts
    assert "plugin 'bad' of rllm-renderer-bad 1.0: rllm_renderer_judge raised" in failed
    assert "can't be compared with the tokenizer's chat template" in unchecked


@pytest.mark.filterwarnings("ignore::rllm_renderer_core.RendererWarning")
@pytest.mark.parametrize("method", ["judge", "enforce"])
def test_parity_error_refuses_where_the_judgement_fails(install, method):
    install("rllm-renderer-a", source=plugin("a"))
    install("rllm-renderer-bad", source=hooks(**{method: "raise ValueError('oops')"}))
    with pytest.raises(ParityError, match="can't be compared"):
        resolve(MODEL, Templated(), parity="error")


def test_what_lacks_a_method_of_a_judgement_is_none(install):
    install("rllm-renderer-a", source=plugin("a"))
    install("rllm-renderer-bad", source=hooks().replace("def written", "def wrote"))
    _, texts = warned(lambda: resolve(MODEL, Templated()))
    assert "it must return Judgement or None" in texts[0]


# Without a plugin that has them


def test_without_a_plugin_that_judges_it_is_said_once_for_all_models(install):
    install("rllm-renderer-a", source=plugin("a", models=("toy/toy-1", "toy/toy-2")))
    _, texts = warned(lambda: [resolve(model, Templated()) for model in ("toy/toy-1", "toy/toy-2", "toy/toy-1")])
    (text,) = texts
    assert text.startswith("<a:toy for 'toy/toy-1', bridge> can't be compared with the tokenizer's chat template")
    assert "pip install 'rllm-renderer-template @ " in text and "parity='off'" in text


@pytest.mark.parametrize("options", [{"parity": "off"}, {}], ids=["not asked", "no template"])
def test_where_nothing_is_to_be_compared_nothing_is_said(install, options):
    install("rllm-renderer-a", source=plugin("a"))
    _, texts = warned(lambda: resolve(MODEL, Templated() if options else toy.ToyTokenizer(), **options))
    assert not texts


def test_parity_error_refuses_what_cant_be_compared(install):
    install("rllm-renderer-a", source=plugin("a"))
    with pytest.raises(ParityError, match="can't be compared") as caught:
        resolve(MODEL, Templated(), parity="error")
    assert caught.value.fix.startswith("pip install 'rllm-renderer-template @ ")
    assert select_backend(MODEL, parity="error").backend == "a"


def test_an_uncovered_name_names_the_plugin_that_serves_any_template(install):
    install("rllm-renderer-a", source=plugin("a"))
    for call in (lambda: select_backend("nobody/knows"), lambda: resolve("nobody/knows", Templated())):
        with pytest.raises(NoBackendError) as caught:
            call()
        assert caught.value.fix.startswith("pip install 'rllm-renderer-template @ ")


# A pin that holds what is written


def test_a_pin_with_what_is_written_holds_where_the_same_is_written(install, tmp_path):
    site = tmp_path / "site"
    install("rllm-renderer-a", "1.0", plugin("a"), path=site)
    install("rllm-renderer-h", source=hooks())
    pin = {**resolve(MODEL, Templated()).proof().to_dict()}
    assert pin["written"] == "d1"
    other = {**pin, "core": "9.9", "plugin": "rllm-renderer-a 0.9", "sources": {"rllm-renderer-a": "0" * 16}}
    assert resolve(tokenizer=Templated(), pin=other).resolution.written == "d1"
    for changes in ({"written": "d2"}, {"written": "d2", "core": "9.9"}):
        with pytest.raises(PinMismatchError, match="written: d1 here, d2 there") as caught:
            resolve(tokenizer=Templated(), pin={**pin, **changes})
        assert any(line.startswith("core: ") for line in caught.value.differences) is ("core" in changes)


def test_a_pin_of_another_core_holds_without_it_too(install):
    install("rllm-renderer-a", source=plugin("a"))
    pin = {**select_backend(MODEL).to_dict(), "core": "9.9"}
    assert select_backend(pin=pin).backend == "a"
    with pytest.raises(PinMismatchError, match=r"rllm-renderer-a 1\.0 here, rllm-renderer-a 0\.9 there"):
        select_backend(pin={**pin, "plugin": "rllm-renderer-a 0.9"})


def test_a_pin_with_what_is_written_cant_be_verified_without_a_plugin_that_writes_probes(install):
    install("rllm-renderer-a", source=plugin("a"))
    pin = {**select_backend(MODEL).to_dict(), "written": "d1"}
    with pytest.raises(PinMismatchError) as caught:
        resolve(tokenizer=Templated(), pin=pin, parity="off")
    assert caught.value.fix.startswith("pip install 'rllm-renderer-template @ ")
