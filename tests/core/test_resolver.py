"""The best match by priority, then match, then an error; a forced choice first; and always with the reason."""

from __future__ import annotations

import random
import sys
import warnings

import pytest
import toy
from plugin_source import plugin

import rllm_renderer_core as core
from rllm_renderer_core import (
    AmbiguousBackendError,
    BackendUnavailableError,
    CreateError,
    NoBackendError,
    NoBridgeError,
    OptionError,
    RendererWarning,
    Resolution,
    explain,
    resolve,
    select_backend,
)
from rllm_renderer_core.plugin import distributions

pytestmark = pytest.mark.usefixtures("no_plugins")

MODEL = "toy/toy-1"


class Templated(toy.ToyTokenizer):
    chat_template = "{{ messages }}"


def asked(distribution):
    """Names of the backends of that plugin that were asked, in order."""
    module = next(m for name, m in sys.modules.items() if name.startswith(f"plugin_{distribution.replace('-', '_')}_"))
    return module.ASKED


# Priority and match


def test_the_highest_priority_wins(install):
    install("rllm-renderer-low", source=plugin("low", priority=10))
    install("rllm-renderer-high", source=plugin("high", priority=20))
    assert select_backend(MODEL).backend == "high"


def test_priority_counts_more_than_match(install):
    install("rllm-renderer-low", source=plugin("low", priority=10, match="EXACT"))
    install("rllm-renderer-high", source=plugin("high", priority=20, match="FAMILY"))
    assert select_backend(MODEL).backend == "high"


def test_match_decides_between_equal_priorities(install):
    install("rllm-renderer-family", source=plugin("family", match="FAMILY"))
    install("rllm-renderer-exact", source=plugin("exact", match="EXACT"))
    assert select_backend(MODEL).backend == "exact"


def test_within_one_distribution_its_own_order_decides(install):
    install("rllm-renderer-a", source=plugin("z", "y", "x"))
    assert select_backend(MODEL).backend == "z"


def test_negative_priority_is_below_the_builtin(install):
    install("rllm-renderer-a", source=plugin("a", priority=-1))
    assert select_backend(MODEL).backend == "chat-template"


def test_a_backend_that_does_not_cover_never_wins(install):
    install("rllm-renderer-a", source=plugin("a", models=("toy/other",)))
    assert select_backend(MODEL).backend == "chat-template"


def test_two_equals_are_an_error_that_names_both(install, monkeypatch):
    for name in ("one", "two", "three"):
        install(f"rllm-renderer-{name}", source=plugin(name, match="FAMILY" if name == "three" else "EXACT"))
    said = set()
    for seed in range(20):
        path = list(sys.path)
        random.Random(seed).shuffle(path)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", path)
            with pytest.raises(AmbiguousBackendError) as caught:
                select_backend(MODEL)
        said.add(str(caught.value))
        assert caught.value.backends == ("one", "two")
    (text,) = said
    assert "rllm-renderer-one" in text and "rllm-renderer-two" in text and "three" not in text
    assert "backend='one' or backend='two'" in text


def test_the_argument_that_it_names_settles_it(install):
    for name in ("one", "two"):
        install(f"rllm-renderer-{name}", source=plugin(name))
    assert select_backend(MODEL, backend="two").backend == "two"


def test_equals_below_the_winner_are_no_error(install):
    for name in ("one", "two"):
        install(f"rllm-renderer-{name}", source=plugin(name))
    install("rllm-renderer-high", source=plugin("high", priority=20))
    assert select_backend(MODEL).backend == "high"


# Laziness


def test_asking_stops_at_the_winner(install):
    install("rllm-renderer-high", source=plugin("high", priority=20))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    select_backend(MODEL)
    assert asked("rllm-renderer-high") == ["high"]
    assert asked("rllm-renderer-low") == []


def test_explaining_asks_all(install):
    install("rllm-renderer-high", source=plugin("high", priority=20))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    explain(MODEL)
    assert "low" in asked("rllm-renderer-low")


def test_a_crash_in_a_probe_that_nobody_needs_is_no_crash(install):
    install("rllm-renderer-high", source=plugin("high", priority=20))
    install("rllm-renderer-low", source=plugin("low", priority=10, covers="1 / 0"))
    assert select_backend(MODEL).backend == "high"


def test_a_crash_in_a_probe_above_the_winner_is_said_and_the_others_go_on(install):
    install("rllm-renderer-high", source=plugin("high", priority=20, covers="1 / 0"))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    with pytest.warns(RendererWarning, match="ZeroDivisionError"):
        chosen = select_backend(MODEL)
    assert chosen.backend == "low"
    assert any("high" in hint and "ZeroDivisionError" in hint for hint in chosen.hints)
    assert resolve(MODEL, toy.ToyTokenizer()).resolution.hints == chosen.hints


def test_a_crash_in_a_probe_raises_under_strict(install, monkeypatch):
    install("rllm-renderer-high", source=plugin("high", priority=20, covers="1 / 0"))
    monkeypatch.setenv("RLLM_RENDERER_STRICT", "1")
    with pytest.raises(core.PluginError, match="ZeroDivisionError"):
        select_backend(MODEL)


def test_a_probe_that_answers_nonsense_is_said(install):
    install("rllm-renderer-high", source=plugin("high", priority=20, covers="return 'yes'"))
    with pytest.warns(RendererWarning, match="not 'yes'"):
        chosen = select_backend(MODEL)
    assert chosen.backend == "chat-template"
    assert any("must return Coverage, Unavailable or None, not 'yes'" in hint for hint in chosen.hints)


# A forced choice


def test_backend_is_forced_by_argument(install):
    install("rllm-renderer-high", source=plugin("high", priority=20))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    assert select_backend(MODEL, backend="low").backend == "low"
    assert asked("rllm-renderer-high") == []


def test_backend_is_forced_by_variable(install, monkeypatch):
    install("rllm-renderer-high", source=plugin("high", priority=20))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    monkeypatch.setenv("RLLM_RENDERER_BACKEND", "low")
    assert select_backend(MODEL).backend == "low"


def test_the_argument_counts_more_than_the_variable(install, monkeypatch):
    install("rllm-renderer-low", source=plugin("low", priority=10))
    monkeypatch.setenv("RLLM_RENDERER_BACKEND", "nowhere")
    assert select_backend(MODEL, backend="low").backend == "low"


def test_an_empty_variable_forces_nothing(monkeypatch):
    monkeypatch.setenv("RLLM_RENDERER_BACKEND", "")
    assert select_backend(MODEL).backend == "chat-template"


def test_a_forced_backend_that_does_not_cover_is_an_error(install):
    install("rllm-renderer-a", source=plugin("a", models=()))
    with pytest.raises(NoBackendError, match="no backend covers 'toy/toy-1'"):
        select_backend(MODEL, backend="a")


def test_an_unknown_backend_lists_the_known_ones(install):
    install("rllm-renderer-a", source=plugin("a"))
    with pytest.raises(BackendUnavailableError, match="installed are a, chat-template"):
        select_backend(MODEL, backend="b")


def test_renderer_is_forced_by_name_whatever_the_model_is_called(install):
    install("rllm-renderer-a", source=plugin("a", models=()))
    chosen = select_backend("/ckpt/run7/step_40", renderer="toy")
    assert (chosen.backend, chosen.renderer, chosen.match, chosen.model) == ("a", "toy", "named", "/ckpt/run7/step_40")


def test_an_unknown_renderer_lists_the_known_ones(install):
    install("rllm-renderer-a", source=plugin("a"))
    with pytest.raises(NoBackendError, match=r"no backend has a renderer for renderer='nope'") as caught:
        select_backend(MODEL, renderer="nope")
    assert "a: toy" in str(caught.value) and "chat-template: chat-template" in str(caught.value)


def test_chat_template_can_be_named(install):
    install("rllm-renderer-a", source=plugin("a"))
    assert select_backend(MODEL, renderer="chat-template").backend == "chat-template"


def test_a_spelling_addresses_the_backends_that_declare_it(install):
    install("rllm-renderer-family", source=plugin("family", spellings=("renderer_family",)))
    install("rllm-renderer-name", source=plugin("name", spellings=("renderer_name",), priority=5))
    assert select_backend(MODEL, renderer_family="toy").backend == "family"
    assert select_backend(MODEL, renderer_name="toy").backend == "name"
    assert select_backend(MODEL, renderer="toy").backend == "family"


def test_a_spelling_that_nobody_declares_is_an_error():
    with pytest.raises(NoBackendError, match=r"no installed backend is addressed by renderer_family='toy'"):
        select_backend(MODEL, renderer_family="toy")


def test_naming_a_renderer_twice_is_an_error():
    with pytest.raises(OptionError, match="renderer and renderer_family name a renderer twice"):
        select_backend(MODEL, renderer="a", renderer_family="b")


def test_neither_model_nor_tokenizer_is_an_error():
    for call in (select_backend, resolve, explain):
        with pytest.raises(NoBackendError, match="neither a model nor a tokenizer"):
            call()
    with pytest.raises(NoBackendError):
        select_backend("")


def test_the_model_defaults_to_the_name_of_the_tokenizer(install):
    install("rllm-renderer-a", source=plugin("a"))
    assert select_backend(tokenizer=toy.ToyTokenizer()).model == MODEL


# Names are never matched by parts


@pytest.mark.parametrize(
    "model",
    [
        "/ckpt/run7/step_40",
        "me/toy-1-sft",
        "toy/toy-1-distill",
        "x/not-toy/toy-1-really",
        "TOY/toy-1",
        "toy/toy-1 ",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    ],
)
def test_similar_names_do_not_match(install, model):
    install("rllm-renderer-a", source=plugin("a"))
    assert select_backend(model).backend == "chat-template"
    with pytest.raises(NoBridgeError):
        select_backend(model, require_bridge=True, template_bridge=False)


@pytest.mark.parametrize(
    "model", ["/ckpt/run7/step_40", "me/Qwen3-8B-sft", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "x/not-qwen3-really", "qwen3"]
)
def test_the_projects_own_plugins_match_no_similar_name(model, monkeypatch):
    monkeypatch.undo()  # the plugins that no_plugins hides
    for variable in ("RLLM_RENDERER_BACKEND", "RLLM_RENDERER_PLUGINS", "RLLM_RENDERER_DISABLED"):
        monkeypatch.delenv(variable, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert select_backend(model).match == "fallback"


# Unavailable, and less than could be

GONE = "return Unavailable('upstream_x is missing', 'pip install upstream_x')"


def test_unavailable_never_wins_and_its_fix_is_shown(install):
    install("rllm-renderer-high", source=plugin("high", priority=20, covers=GONE))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    with pytest.warns(RendererWarning, match="low serves it; high: upstream_x is missing"):
        chosen = select_backend(MODEL)
    assert chosen.backend == "low"
    assert chosen.hints == ("high: upstream_x is missing; pip install upstream_x",)


def test_resolving_to_less_warns_once_with_the_fix(install):
    install("rllm-renderer-high", source=plugin("high", priority=20, covers=GONE))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    with pytest.warns(RendererWarning, match="toy/toy-1: low serves it; high: .* pip install"):
        resolve(MODEL, toy.ToyTokenizer())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve(MODEL, toy.ToyTokenizer())


def test_unavailable_below_the_winner_is_no_hint(install):
    install("rllm-renderer-high", source=plugin("high", priority=20))
    install("rllm-renderer-low", source=plugin("low", priority=10, covers=GONE))
    assert select_backend(MODEL).hints == ()


def test_a_forced_backend_that_is_unavailable_says_why(install):
    install("rllm-renderer-a", source=plugin("a", covers=GONE))
    with pytest.raises(BackendUnavailableError, match="backend 'a' can't serve 'toy/toy-1': upstream_x is missing") as caught:
        select_backend(MODEL, backend="a")
    assert caught.value.fix == "pip install upstream_x"


def test_a_forced_renderer_whose_backend_is_unavailable_says_why(install):
    install("rllm-renderer-a", source=plugin("a", covers=GONE))
    with pytest.raises(BackendUnavailableError, match="upstream_x is missing"):
        select_backend(MODEL, renderer="elsewhere")


FROM_THE_REPOSITORY = "pip install " + " ".join(
    f"'{name} @ git+https://github.com/rllm-org/rllm-renderer#subdirectory=plugins/{name}'"
    for name in ("rllm-renderer-template", "rllm-renderer-prime")
)
"""The command installs what a plugin needs of this repository too, as no package index has it."""


def test_the_fallback_hints_at_published_plugins(monkeypatch):
    monkeypatch.setitem(distributions.KNOWN_PLUGINS, "prime", "rllm-renderer-prime")
    with pytest.warns(RendererWarning, match="chat-template serves it; not installed, and may know this model: prime;"):
        chosen = select_backend("Qwen/Qwen3-8B")
    assert chosen.hints == ("not installed, and may know this model: prime; explain() has the commands",)
    assert FROM_THE_REPOSITORY in str(explain("Qwen/Qwen3-8B"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        select_backend("google/gemma-3-4b-it")


def test_a_forced_backend_that_is_not_installed_names_its_distribution(monkeypatch):
    monkeypatch.setitem(distributions.KNOWN_PLUGINS, "prime", "rllm-renderer-prime")
    with pytest.raises(BackendUnavailableError, match="backend 'prime' isn't installed") as caught:
        select_backend(MODEL, backend="prime")
    assert caught.value.fix == FROM_THE_REPOSITORY


# A tokenizer without a chat template


def test_a_native_backend_needs_no_chat_template(install):
    install("rllm-renderer-a", source=plugin("a"))
    assert resolve(MODEL, toy.ToyTokenizer()).backend == "a"


def test_nothing_covers_a_tokenizer_without_template(install, monkeypatch):
    install("rllm-renderer-a", source=plugin("a", models=()))
    install("rllm-renderer-bad", source="import not_there")
    monkeypatch.setitem(distributions.KNOWN_PLUGINS, "prime", "rllm-renderer-prime")
    with pytest.warns(RendererWarning), pytest.raises(NoBackendError) as caught:
        resolve(MODEL, toy.ToyTokenizer())
    verdicts = {verdict.backend: verdict.verdict for verdict in caught.value.explanation.verdicts}
    assert verdicts == {"a": "no match", "chat-template": "unavailable", "bad": "broken", "prime": "not installed"}
    text = str(caught.value)
    assert "the tokenizer has no chat template" in text and FROM_THE_REPOSITORY in text


# require_bridge and options


def test_require_bridge_refuses_a_winner_without_one(install):
    install("rllm-renderer-a", source=plugin("a", bridge=False))
    with pytest.raises(NoBridgeError, match="the best match for 'toy/toy-1' is a:toy, which has no bridge") as caught:
        select_backend(MODEL, require_bridge=True)
    assert caught.value.explanation.winner == "a"
    assert "choose another renderer= or backend=" in str(caught.value)


def test_require_bridge_on_the_fallback_says_how_to_get_one():
    with pytest.raises(NoBridgeError, match="template_bridge=False declines every bridge"):
        select_backend(MODEL, require_bridge=True, template_bridge=False)


def test_bridges_by_experiment_satisfy_require_bridge():
    chosen = select_backend(MODEL, require_bridge=True)
    assert chosen.has_bridge and "by experiment" in chosen.reason
    assert "by experiment" in str(explain(MODEL))


@pytest.mark.parametrize(
    "option",
    [{"thinking": True}, {"thinking": False}, {"chat_template_kwargs": {"x": 1}}, {"image_processor": object()}],
    ids=lambda option: next(iter(option)),
)
def test_an_option_that_the_winner_cannot_honour_names_both(install, option):
    install("rllm-renderer-a", source=plugin("a"))
    (name,) = option
    with pytest.raises(OptionError, match=f"backend 'a' can't honour {name}=") as caught:
        select_backend(MODEL, **option)
    assert (caught.value.option, caught.value.backend) == (name, "a")


def test_an_option_that_the_winner_declares_is_recorded(install):
    install("rllm-renderer-a", source=plugin("a", options=("thinking", "chat_template_kwargs")))
    chosen = select_backend(MODEL, thinking=False, chat_template_kwargs={"x": 1})
    assert chosen.options == {"thinking": False, "chat_template_kwargs": {"x": 1}}


def test_defaults_are_not_recorded(install):
    install("rllm-renderer-a", source=plugin("a"))
    chosen = select_backend(MODEL, thinking=None, thinking_retention="all", chat_template_kwargs={}, marker_text="allow")
    assert chosen.options == {}


@pytest.mark.parametrize("value", [True, False])
def test_template_bridge_concerns_the_chat_template_alone(install, value):
    install("rllm-renderer-a", source=plugin("a"))
    assert select_backend(MODEL, template_bridge=value).has_bridge


@pytest.mark.parametrize(
    "option",
    [{"thinking": "yes"}, {"thinking_retention": "some"}, {"marker_text": "maybe"}],
    ids=lambda option: next(iter(option)),
)
def test_a_value_that_does_not_exist_is_refused_by_name(option):
    (name,) = option
    with pytest.raises(OptionError, match=name) as caught:
        select_backend(MODEL, **option)
    assert caught.value.option == name


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="require_brige"):
        select_backend(MODEL, require_brige=True)


# Creating


def test_resolve_returns_the_renderer_with_its_record(install):
    install("rllm-renderer-a", "1.5", plugin("a", upstream=("pluggy", "nowhere")))
    renderer = resolve(MODEL, toy.ToyTokenizer())
    assert isinstance(renderer, core.Renderer)
    assert (renderer.backend, renderer.name, renderer.has_bridge) == ("a", "toy", True)
    assert renderer.resolution == select_backend(MODEL)
    assert renderer.resolution.plugin == "rllm-renderer-a 1.5"
    assert renderer.resolution.core == core.__version__
    assert renderer.resolution.upstream["nowhere"] == "not installed" and renderer.resolution.upstream["pluggy"]


def test_a_failure_to_create_names_what_comes_next_and_falls_back_to_nothing(install):
    install("rllm-renderer-high", source=plugin("high", priority=20, create="raise RuntimeError('no vocabulary file')"))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    with pytest.raises(CreateError, match=r"backend 'high' of rllm-renderer-high .*no vocabulary file") as caught:
        resolve(MODEL, toy.ToyTokenizer())
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "backend='low'" in str(caught.value.fix)


def test_a_failure_to_create_with_nothing_behind_it(install):
    install("rllm-renderer-a", source=plugin("a", create="raise RuntimeError('x')"))
    with pytest.raises(CreateError) as caught:
        resolve(MODEL, toy.ToyTokenizer())
    assert caught.value.fix == "repair it"


def test_a_failure_to_create_is_not_hidden_by_ambiguity_behind_it(install):
    install("rllm-renderer-high", source=plugin("high", priority=20, create="raise RuntimeError('x')"))
    for name in ("one", "two"):
        install(f"rllm-renderer-{name}", source=plugin(name))
    with pytest.raises(CreateError):
        resolve(MODEL, toy.ToyTokenizer())


def test_an_option_that_create_refuses_keeps_its_own_error(install):
    source = plugin("a", create="from rllm_renderer_core import OptionError; raise OptionError('no', option='thinking')")
    install("rllm-renderer-a", source=source)
    with pytest.raises(OptionError, match="no"):
        resolve(MODEL, toy.ToyTokenizer())


def test_what_is_no_renderer_is_refused(install):
    install("rllm-renderer-a", source=plugin("a", create="return object()"))
    with pytest.raises(core.ContractError, match="backend 'a' created a object, which isn't a Renderer"):
        resolve(MODEL, toy.ToyTokenizer())


def test_resolving_does_not_depend_on_what_was_resolved_before(install):
    install("rllm-renderer-a", source=plugin("a", models=("toy/a",)))
    install("rllm-renderer-b", source=plugin("b", models=("toy/b",)))
    first = [select_backend(model) for model in ("toy/a", "toy/b", "toy/c")]
    assert [select_backend(model) for model in ("toy/c", "toy/b", "toy/a")] == first[::-1]


# Explaining


def test_explanation_is_a_table_with_the_winner_marked(install):
    install("rllm-renderer-high", source=plugin("high", priority=20, models=()))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    table = explain(MODEL)
    assert table.winner == "low"
    lines = str(table).splitlines()
    assert lines[0] == "toy/toy-1: low wins"
    assert [line.split()[0] for line in lines[2:]] == ["high", "*", "chat-template"]
    assert "covers (exact)" in lines[3] and "a made-up rule" in lines[3]


def test_explanation_is_json(install):
    import json

    install("rllm-renderer-a", source=plugin("a"))
    data = json.loads(json.dumps(explain(MODEL).to_dict()))
    assert data["winner"] == "a" and {each["backend"] for each in data["verdicts"]} == {"a", "chat-template"}


def test_explanation_of_ambiguity_does_not_raise(install):
    for name in ("one", "two"):
        install(f"rllm-renderer-{name}", source=plugin(name))
    table = explain(MODEL)
    assert table.winner is None and "claim 'toy/toy-1' with the same priority" in table.reason


def test_explanation_shows_a_broken_probe(install):
    install("rllm-renderer-a", source=plugin("a", priority=-5, covers="1 / 0"))
    assert {v.backend: v.verdict for v in explain(MODEL).verdicts} == {"a": "broken", "chat-template": "covers"}


# Pins


def test_a_pinned_resolution_resolves_the_same(install, monkeypatch):
    install("rllm-renderer-high", source=plugin("high", priority=20))
    install("rllm-renderer-low", source=plugin("low", priority=10))
    low = select_backend(MODEL, backend="low", thinking_retention="tool_cycle")
    monkeypatch.setenv("RLLM_RENDERER_BACKEND", "high")
    assert select_backend(pin=low.to_dict()) == low
    assert resolve(tokenizer=toy.ToyTokenizer(), pin=low).resolution == low


def test_a_pin_of_another_version_is_refused_with_the_differences(install):
    install("rllm-renderer-a", source=plugin("a"))
    pin = Resolution.from_dict({**select_backend(MODEL).to_dict(), "plugin": "rllm-renderer-a 0.9"})
    with pytest.raises(core.PinMismatchError, match=r"rllm-renderer-a 0\.9") as caught:
        select_backend(pin=pin)
    assert len(caught.value.differences) == 1


def test_an_option_that_contradicts_the_pin_is_refused(install):
    install("rllm-renderer-a", source=plugin("a"))
    pin = select_backend(MODEL)
    with pytest.raises(core.PinMismatchError, match="thinking_retention"):
        select_backend(pin=pin, thinking_retention="tool_cycle")
