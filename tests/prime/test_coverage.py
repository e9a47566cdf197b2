"""Which models prime covers: exactly those of the installed ``renderers``, told without importing it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from renderers.base import MODEL_RENDERER_MAP
from renderers.configs import _CONFIG_BY_NAME
from rllm_renderer_prime import backend as plugin
from rllm_renderer_prime import installed

from rllm_renderer_core import (
    Coverage,
    Match,
    NoBackendError,
    Query,
    RendererError,
    Unavailable,
    explain,
    resolve,
    select_backend,
)

HEAVY = ("torch", "transformers", "renderers", "pydantic", "openai", "numpy", "jinja2")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_plugin_module_is_light() -> None:
    assert run(f"import sys, rllm_renderer_prime; print([name for name in {HEAVY} if name in sys.modules])") == "[]"


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "me/Qwen3-8B-sft"])
def test_selecting_in_a_cold_process_imports_nothing_heavy(model: str) -> None:
    code = (
        "import sys, os\nos.environ['RLLM_RENDERER_PLUGINS'] = 'prime,chat-template'\n"
        "from rllm_renderer_core import select_backend\n"
        f"chosen = select_backend({model!r}).backend\n"
        f"print(chosen, [name for name in {HEAVY} if name in sys.modules])"
    )
    assert run(code) == f"{'prime' if model in MODEL_RENDERER_MAP else 'chat-template'} []"


def test_the_map_that_is_read_is_the_map_that_is_imported() -> None:
    found = installed.installed_upstream()
    assert found is not None
    assert found.models == MODEL_RENDERER_MAP
    assert set(found.families) == set(_CONFIG_BY_NAME) - {"auto", "default", "custom"}


def test_a_map_that_is_written_differently_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_literal", lambda file, name: None)
    installed._read.cache_clear()
    try:
        found = installed.installed_upstream()
        assert found is not None and found.models == MODEL_RENDERER_MAP and "qwen3" in found.families
    finally:
        installed._read.cache_clear()


@pytest.mark.parametrize("name", sorted(MODEL_RENDERER_MAP))
def test_every_listed_model_resolves_to_prime_with_a_bridge(name: str) -> None:
    resolution = select_backend(name)
    assert (resolution.backend, resolution.renderer) == ("prime", MODEL_RENDERER_MAP[name])
    assert resolution.match == "exact" and resolution.has_bridge
    assert resolution.upstream["renderers"] != "not installed"


UNLISTED = [
    "me/Qwen3-8B-sft",
    "qwen/qwen3-8b",
    "",
    "Qwen/Qwen3-8B-Base",
    "/ckpt/run7/step_40",
    "zai-org/GLM-5.2",
    "x/not-qwen3-really",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    " Qwen/Qwen3-8B",
]


@pytest.mark.parametrize("name", UNLISTED)
def test_no_other_name_is_covered(name: str) -> None:
    """No substring, no case folding, no family by guess."""
    assert plugin.PrimeBackend().covers(Query(name)) is None


@pytest.mark.parametrize("name", [name for name in UNLISTED if name])
def test_a_family_that_the_user_names_serves_any_model(name: str) -> None:
    resolution = select_backend(name, renderer_family="qwen3")
    assert (resolution.backend, resolution.renderer, resolution.match) == ("prime", "qwen3", "named")


def test_an_unknown_family_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(NoBackendError) as caught:
        select_backend("me/Qwen3-8B-sft", renderer_family="qwen33")
    assert "renderer_family='qwen33'" in str(caught.value)
    for family in ("qwen3", "qwen3.5", "gpt-oss", "kimi-k2.5"):
        assert family in str(caught.value)


@pytest.mark.parametrize("name", ["default", "auto", "custom"])
def test_upstreams_fallbacks_are_no_families(name: str) -> None:
    assert plugin.PrimeBackend().covers(Query("Qwen/Qwen3-8B", renderer=name)) is None
    assert name not in plugin.PrimeBackend().renderer_names()


def test_without_upstream_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "installed_upstream", lambda: None)
    answer = plugin.PrimeBackend().covers(Query("Qwen/Qwen3-8B"))
    assert isinstance(answer, Unavailable) and "pip install renderers" in answer.fix
    assert "pip install renderers" in str(explain("Qwen/Qwen3-8B"))


def test_explain_names_the_winner_and_the_reason() -> None:
    told = explain("Qwen/Qwen3-8B")
    assert told.winner == "prime" and "listed in MODEL_RENDERER_MAP" in str(told)


def test_candidates_are_all_families() -> None:
    backend = plugin.PrimeBackend()
    offered = list(backend.candidates(Query("me/anything")))
    assert [each.renderer for each in offered] == list(backend.renderer_names())
    assert all(each.match is Match.PARITY and each.has_bridge for each in offered)


def test_gpt_oss_is_no_candidate_on_another_vocabulary(tokenizer_of: Any) -> None:
    offered = plugin.PrimeBackend().candidates(Query("me/anything", tokenizer_of("Qwen/Qwen3-8B")))
    assert "gpt-oss" not in {each.renderer for each in offered}


def test_a_map_that_changed_since_it_was_read_is_an_error(tokenizer_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of("Qwen/Qwen3-8B")
    monkeypatch.setitem(MODEL_RENDERER_MAP, "Qwen/Qwen3-8B", "qwen3.5")
    with pytest.raises(RendererError, match="its file to 'qwen3'"):
        resolve("Qwen/Qwen3-8B", tokenizer, backend="prime")


def test_the_default_and_a_pin_are_different_identities() -> None:
    default, pinned = select_backend("Qwen/Qwen3-8B"), select_backend("Qwen/Qwen3-8B", renderer="qwen3")
    assert default != pinned
    assert {key for key, value in default.to_dict().items() if pinned.to_dict()[key] != value} >= {"match", "reason"}


def test_coverage_travels() -> None:
    import pickle

    coverage = plugin.PrimeBackend().covers(Query("openai/gpt-oss-20b"))
    assert isinstance(coverage, Coverage) and pickle.loads(pickle.dumps(coverage)) == coverage
    assert isinstance(pickle.loads(pickle.dumps(plugin.PrimeBackend())), plugin.PrimeBackend)
