"""rLLM's sources for tests: the folder in ``RLLM_SOURCE``. ``missing()`` says why there are none."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import sys

import pytest
import real_tokenizers

GATEWAY = pathlib.Path("rllm-model-gateway/src/rllm_model_gateway")


def source() -> pathlib.Path | None:
    """The root of rLLM's repository, where ``RLLM_SOURCE`` names one."""
    found = os.environ.get("RLLM_SOURCE")
    return pathlib.Path(found) if found else None


def need(what: str, *modules: str) -> None:
    """Skip where a module isn't installed, with ``what`` isn't proved then."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{what}: {name} isn't installed")


def need_engines(model: str) -> None:
    """Skip where rLLM's engines can't be run with this model."""
    need("rLLM's engines weren't run", "tinker", "tinker_cookbook", "renderers")
    if why := real_tokenizers.missing(model):
        pytest.skip(why)
    if "DeepSeek-V4" in model:
        from rllm_renderer_core import RendererError, select_backend

        try:
            selected = select_backend(model, require_bridge=True)
        except RendererError as error:
            pytest.skip(f"no native renderer of {model} here: {str(error).splitlines()[0]}")
        if selected.match == "fallback":
            pytest.skip(f"no native renderer of {model} here")


def missing() -> str | None:
    """Why tests against rLLM's sources can't run here."""
    for name in ("fastapi", "uvicorn", "httpx", "openai"):
        if importlib.util.find_spec(name) is None:
            return f"rLLM's gateway wasn't run: {name} isn't installed"
    root = source()
    if root is None:
        return "rLLM's repository wasn't found: set RLLM_SOURCE to a clone of it"
    return None if (root / GATEWAY / "token_accumulator.py").is_file() else f"RLLM_SOURCE={root} isn't rLLM's repository"


def unified(root: pathlib.Path) -> bool:
    """Whether this revision has ``rllm/renderers`` (955a0c29 and after), or builds renderers at each place (before)."""
    return (root / "rllm" / "renderers").is_dir()


def scratch_copy(target: pathlib.Path) -> pathlib.Path:
    """A copy of ``RLLM_SOURCE``: both packages, their tests, and what else the patches change."""
    root = source()
    assert root is not None
    for folder in ("rllm", "rllm-model-gateway", "tests"):
        shutil.copytree(root / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    for file in ("pyproject.toml", "docs/guides/sft-distillation.mdx", "design/unified-renderer-layer.md"):
        if (root / file).exists():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / file, target / file)
    return target


def environment(root: pathlib.Path, more: dict[str, str] | None = None) -> dict[str, str]:
    """Variables of a process that runs rLLM: the copy first, then what this process can import."""
    path = [root, root / GATEWAY.parent, pathlib.Path(__file__).parent, *filter(None, sys.path)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RLLM_RENDERER_")}
    # rLLM's tests aren't ours to hold to our warning filters.
    inherited = {name: value for name, value in inherited.items() if name not in ("PYTHONWARNINGS", "PYTEST_ADDOPTS")}
    return {**inherited, "PYTHONPATH": os.pathsep.join(map(str, path)), "HF_HUB_OFFLINE": "1", **(more or {})}
