"""What a plugin answers when it is asked: a wrong answer, an exit or a name taken twice stops only what it competes for."""

from __future__ import annotations

import warnings

import pytest
import toy
from plugin_source import plugin

from rllm_renderer_core import DuplicatePluginError, NoBackendError, PluginError, explain, plugins, resolve, select_backend

pytestmark = [pytest.mark.usefixtures("no_plugins"), pytest.mark.filterwarnings("ignore::rllm_renderer_core.RendererWarning")]

MODEL = "toy/toy-1"
WRONG_ANSWERS = {
    "match as text": "return Coverage('toy', 'exact', True, 'r')",
    "match as a number": "return Coverage('toy', 3, True, 'r')",
    "renderer None": "return Coverage(None, Match.EXACT, True, 'r')",
    "renderer empty": "return Coverage('', Match.EXACT, True, 'r')",
    "bridge as text": "return Coverage('toy', Match.EXACT, 'no', 'r')",
    "reason None": "return Coverage('toy', Match.EXACT, True, None)",
    "fix None": "return Unavailable('r', None)",
    "text": "return 'toy'",
    "exit": "raise SystemExit(3)",
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
@pytest.mark.parametrize("priority", [5, 10, 20], ids=["loses", "ties", "would win"])
def test_a_wrong_answer_stops_nobody_else(install, name, priority):
    install("rllm-renderer-good", source=plugin("good", priority=10))
    install("rllm-renderer-odd", source=plugin("odd", priority=priority, covers=WRONG_ANSWERS[name]))
    assert select_backend(MODEL).backend == "good"
    told = explain(MODEL)
    assert told.winner == "good"
    (verdict,) = (each for each in told.verdicts if each.backend == "odd")
    assert verdict.verdict == "broken" and "rllm-renderer-odd" in verdict.reason and verdict.fix
    assert str(told)


def test_a_wrong_answer_raises_under_strict(install, monkeypatch):
    monkeypatch.setenv("RLLM_RENDERER_STRICT", "1")
    install("rllm-renderer-odd", source=plugin("odd", covers=WRONG_ANSWERS["match as text"]))
    with pytest.raises(PluginError, match=r"Coverage\.match must be a Match, not 'exact'"):
        select_backend(MODEL)


def test_keyboard_interrupt_passes(install):
    install("rllm-renderer-odd", source=plugin("odd", covers="raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        select_backend(MODEL)


def test_an_exit_while_the_renderer_is_built_is_a_create_error(install):
    install("rllm-renderer-odd", source=plugin("odd", create="raise SystemExit(3)"))
    with pytest.raises(PluginError.__mro__[1], match="can't build 'toy': SystemExit: 3"):
        resolve(MODEL, toy.ToyTokenizer())


CANDIDATES = """
    def candidates(self, query):
        {}
"""


@pytest.mark.parametrize(
    "body", ["return ['toy']", "return [Coverage('toy', 'exact', True, 'r')]", "raise SystemExit(3)", "return 3"]
)
def test_wrong_candidates_are_a_failed_try(install, body):
    from rllm_renderer_template.parity.comparison import Budget
    from rllm_renderer_template.parity.detection import try_all

    from rllm_renderer_core.plugin import Query
    from rllm_renderer_core.plugin.discovery import load_backends

    source = plugin("odd").replace("    def renderer_names", CANDIDATES.format(body) + "\n    def renderer_names")
    install("rllm-renderer-odd", source=source)
    odd = next(each for each in load_backends().registered if each.backend.name == "odd")
    (tried,) = try_all(odd, Query("m", toy.ToyTokenizer()), Budget())
    assert not tried.passed and "candidates raised" in tried.error


# A name taken twice


def twins(install, **more):
    install("rllm-renderer-one", source=plugin("x", **more), plugin="twin")
    install("rllm-renderer-two", source=plugin("y", **more), plugin="twin")


def test_twins_that_cover_nothing_here_stop_nothing(install):
    twins(install, models=("other/model",))
    install("rllm-renderer-third", source=plugin("third"))
    with pytest.warns(UserWarning, match="the name 'twin' is also taken by"):
        assert select_backend(MODEL).backend == "third"
    assert [info.state for info in plugins(check=True) if info.name != "chat-template"] == ["loaded", "duplicate", "duplicate"]
    with pytest.raises(DuplicatePluginError, match="twin"):
        select_backend("other/model")


def test_twins_of_lower_priority_stop_nothing(install):
    twins(install, priority=5)
    install("rllm-renderer-third", source=plugin("third", priority=10))
    assert select_backend(MODEL).backend == "third"


@pytest.mark.parametrize("priority", [10, 20])
def test_twins_that_would_win_or_tie_stop_it(install, priority):
    twins(install, priority=priority)
    install("rllm-renderer-third", source=plugin("third", priority=10))
    with pytest.raises(DuplicatePluginError, match="rllm-renderer-two"):
        select_backend(MODEL)
    assert select_backend(MODEL, backend="third").backend == "third"


def test_a_backend_of_theirs_that_is_asked_for_is_refused_with_the_reason(install):
    twins(install)
    with pytest.raises(NoBackendError, match="the name 'twin' is also taken by"):
        select_backend(MODEL, backend="x")


def test_twins_that_are_broken_too_stop_nothing(install):
    install("rllm-renderer-one", source="raise SystemExit(3)", plugin="twin")
    install("rllm-renderer-two", source=plugin("y", covers="raise ValueError('x')"), plugin="twin")
    install("rllm-renderer-third", source=plugin("third"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert select_backend(MODEL).backend == "third"


def test_a_name_of_their_backends_is_not_taken_from_others(install):
    twins(install, models=("other/model",))
    install("rllm-renderer-third", source=plugin("x"))
    assert select_backend(MODEL).backend == "x"


def test_a_plugin_without_metadata_is_not_one_that_pip_should_install(monkeypatch):
    """A frozen application has the modules and no metadata, by which plugins are found."""
    from rllm_renderer_core.plugin import discovery

    known = {"prime": "rllm-renderer-prime", "minimax-m3": "rllm-renderer-nowhere"}
    monkeypatch.setattr(discovery, "find", list)
    for name, distribution in known.items():
        monkeypatch.setitem(discovery.KNOWN_PLUGINS, name, distribution)
    pytest.importorskip("rllm_renderer_prime")
    with pytest.raises(NoBackendError, match="backend 'prime' isn't installed"):
        select_backend(MODEL, backend="prime")
    monkeypatch.setattr("sys.frozen", True, raising=False)
    verdicts = {each.backend: each for each in explain(MODEL).verdicts}
    assert verdicts["prime"].verdict == "no metadata" and "--copy-metadata" in verdicts["prime"].fix
    assert verdicts["minimax-m3"].verdict == "not installed" and verdicts["minimax-m3"].fix.startswith("pip install ")
    with pytest.raises(NoBackendError, match="backend 'prime' has no metadata") as caught:
        select_backend(MODEL, backend="prime")
    assert "pip" not in caught.value.fix and ".dist-info folder" in caught.value.fix


def test_no_hint_where_the_winner_is_proven_and_bridges(install):
    from toy_template import TemplateTokenizer, plugin_source

    install("rllm-renderer-good", source=plugin_source("right", name="good"))
    install("rllm-renderer-odd", source=plugin("odd", priority=90, covers="return Unavailable('not here', 'fetch it')"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolution = resolve(None, TemplateTokenizer()).resolution
    assert (resolution.backend, resolution.match, resolution.hints) == ("good", "parity", ())
    (hint,) = resolve(None, TemplateTokenizer(), backend="good", renderer="right").resolution.hints or ("none",)
    assert hint == "none"
    assert "not here" in " ".join(resolve(None, TemplateTokenizer(), detect=False).resolution.hints)
