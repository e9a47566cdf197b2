"""Coverage by exact names, options under the core's names, what importing costs, and what installing changes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tml_oracle as oracle
from rllm_renderer_tml.backend import TmlBackend
from rllm_renderer_tml.families import BY_MODEL, FAMILIES

import rllm_renderer_core as core


def test_the_entry_point_and_covers_import_no_upstream():
    program = (
        "import sys, rllm_renderer_tml\n"
        "from rllm_renderer_core.plugin import Query\n"
        "(backend,) = rllm_renderer_tml.rllm_renderer_backends()\n"
        "assert backend.covers(Query('zai-org/GLM-5.2')).renderer == 'Glm52'\n"
        "assert not {'torch', 'tml_renderers', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_version_before_the_one_that_is_corrected_here_serves_nothing(monkeypatch):
    from rllm_renderer_tml import backend

    monkeypatch.setattr(backend, "installed_version", lambda _: "0.2.0")
    found = TmlBackend().covers(core.Query("deepseek-ai/DeepSeek-V4-Flash"))
    assert isinstance(found, core.Unavailable)
    assert "0.2.0" in found.reason and "tml-renderers>=0.2.1" in found.fix
    assert isinstance(TmlBackend().covers(core.Query("x/y", renderer="Qwen3")), core.Unavailable)
    assert not list(TmlBackend().candidates(core.Query("x/y")))


def test_priority_is_between_tinker_and_fireworks():
    assert 40 < TmlBackend.priority < 50


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B-finetune", "me/Qwen3-8B", "Qwen3-8B", "qwen/qwen3-8b", "zai-org/GLM-5"])
def test_names_that_are_only_similar_are_not_covered(name):
    assert TmlBackend().covers(core.Query(name)) is None


def test_every_family_has_an_upstream_class_in_this_version():
    from tml_renderers import renderers

    missing = [family.name for family in FAMILIES if family.vocabulary is None and not hasattr(renderers, family.upstream)]
    assert missing == []


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V4-Flash", "zai-org/GLM-5.2"])
def test_without_the_cookbook_it_wins_where_only_the_cookbook_served(model):
    assert core.select_backend(model).backend == "tml"


@pytest.mark.parametrize(
    "model", [model for model in BY_MODEL if model.startswith(("Qwen/", "moonshotai/", "nvidia/", "openai/"))]
)
def test_models_that_have_a_renderer_keep_it(model, monkeypatch):
    with_tml = core.select_backend(model)
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "tml,fireworks")
    without = core.select_backend(model)
    assert with_tml.backend in ("tml", without.backend)
    assert with_tml.backend == without.backend or without.backend == "chat-template"


@pytest.mark.parametrize("family", [family for family in FAMILIES if not family.compared], ids=lambda each: each.name)
def test_what_was_never_compared_is_taken_only_by_its_own_name(family):
    for model in family.models:
        assert core.select_backend(model).backend != "tml"
    assert core.select_backend(family.models[0], renderer=family.name).backend == "tml"


def test_options_that_upstream_lacks_are_refused():
    tokenizer = oracle.tokenizer("Qwen/Qwen3-4B-Instruct-2507")
    for options in ({"thinking": False}, {"chat_template_kwargs": {"reasoning_effort": "low"}}):
        with pytest.raises(core.OptionError):
            core.resolve("Qwen/Qwen3-4B-Instruct-2507", tokenizer, backend="tml", parity="off", **options)
    with pytest.raises(core.OptionError, match="contradict"):
        core.resolve(
            "Qwen/Qwen3-8B",
            oracle.tokenizer("Qwen/Qwen3-8B"),
            backend="tml",
            thinking=False,
            chat_template_kwargs={"enable_thinking": True},
        )


def test_reasoning_effort_is_the_templates():
    tokenizer = oracle.tokenizer("Qwen/Qwen3.8-27B")
    messages = [{"role": "user", "content": "ping"}]
    for effort in ("low", "medium", "xhigh"):
        renderer = core.resolve(
            "Qwen/Qwen3.8-27B", tokenizer, backend="tml", chat_template_kwargs={"reasoning_effort": effort}, parity="off"
        )
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, reasoning_effort=effort)
        assert (
            renderer.render_ids(messages, add_generation_prompt=True) == tokenizer(text, add_special_tokens=False)["input_ids"]
        )
