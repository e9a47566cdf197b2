"""What importing costs: nothing of a third party for the core, neither torch nor transformers for choosing a backend."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "tokenizers", "renderers", "tinker", "tinker_cookbook", "numpy", "jinja2", "pydantic")


def modules_after(code, **environment):
    """Top-level names in ``sys.modules`` of a cold process, those of the standard library left out."""
    import os

    script = f"""
import sys, warnings
warnings.simplefilter("ignore")
before = set(sys.modules)
{code}
names = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(names - sys.stdlib_module_names))
"""
    run = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_importing_the_core_imports_no_third_party():
    assert modules_after("import rllm_renderer_core") == {"rllm_renderer_core"}


def test_importing_errors_and_types_imports_no_third_party():
    code = "from rllm_renderer_core import ToolCall, RendererError, ParsedResponse, RenderedTokens"
    assert modules_after(code) == {"rllm_renderer_core"}


def test_importing_the_public_face_of_template_and_training_imports_no_third_party():
    code = "from rllm_renderer_template import SeamBridge, LearnedParser\nfrom rllm_renderer_training import Rollout"
    assert not modules_after(code) & set(HEAVY)


@pytest.mark.parametrize("model", ["nobody/knows-this-one", "MiniMaxAI/MiniMax-M3"])
def test_choosing_a_backend_in_a_cold_process_imports_nothing_heavy(model):
    found = modules_after(f"from rllm_renderer_core import select_backend\nselect_backend({model!r})")
    assert not found & {"torch", "transformers"}


def test_listing_plugins_imports_no_plugin():
    found = modules_after("from rllm_renderer_core import plugins\nassert plugins()")
    assert not {name for name in found if name.startswith("rllm_renderer_") and name != "rllm_renderer_core"}
    assert not found & set(HEAVY)


def test_loading_all_plugins_imports_nothing_heavy():
    found = modules_after("from rllm_renderer_core import plugins\nplugins(check=True)")
    assert not found & set(HEAVY)


def test_the_core_needs_neither_pytest_nor_hypothesis():
    found = modules_after("import rllm_renderer_core\nfrom rllm_renderer_core import select_backend\nselect_backend('x/y')")
    assert not found & {"pytest", "hypothesis", "_pytest"}


def test_every_public_name_can_be_had_and_is_documented():
    import inspect

    import rllm_renderer_core

    for name in rllm_renderer_core.__all__:
        value = getattr(rllm_renderer_core, name)
        assert name in dir(rllm_renderer_core)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{name} has no docstring"


def test_a_name_that_does_not_exist_is_an_attribute_error():
    import rllm_renderer_core

    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        rllm_renderer_core.nope  # noqa: B018
