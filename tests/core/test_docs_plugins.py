"""docs/plugins.md is run as it stands: its files are written, installed, resolved and tested."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
import real_tokenizers
import tomllib

import rllm_renderer_core as core
from rllm_renderer_core.testing import fake_distribution

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "plugins.md"


def files() -> dict[str, str]:
    """The code blocks that name a file in their first line, by that name."""
    blocks = re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return {name: text.strip("\n") + "\n" for name, text in blocks}


@pytest.fixture
def installed(tmp_path):
    project = tomllib.loads(files()["pyproject.toml"])
    modules = {name.removesuffix(".py"): text for name, text in files().items() if name.startswith("rllm_renderer_acme")}
    with fake_distribution(
        tmp_path,
        project["project"]["name"],
        project["project"]["version"],
        entry_points=project["project"]["entry-points"]["rllm_renderer"],
        modules=modules,
        requires=project["project"]["dependencies"],
    ):
        yield tmp_path


@pytest.fixture(scope="module")
def tokenizer():
    why = real_tokenizers.missing("Qwen/Qwen3-8B")
    if why:
        pytest.skip(why)
    return real_tokenizers.load("Qwen/Qwen3-8B")


def test_the_plugin_is_40_lines_long():
    assert sum(bool(line.strip()) for line in files()["rllm_renderer_acme.py"].splitlines()) <= 40


def test_the_plugin_is_found_and_bridges(installed, tokenizer):
    renderer = core.resolve("acme/anvil-7b", tokenizer, parity="off")
    assert (renderer.backend, renderer.resolution.match, renderer.has_bridge) == ("acme", "exact", True)
    prompt = renderer.render_ids([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    completion = [*tokenizer.encode("Hello"), *renderer.get_stop_token_ids()]
    new = [{"role": "user", "content": "Bye"}]
    out = renderer.bridge_to_next_turn(prompt, completion, new)
    full = renderer.render_ids(
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, *new], add_generation_prompt=True
    )
    assert out.token_ids == full


def test_its_conformance_tests_pass(installed):
    (installed / "test_acme.py").write_text(files()["test_acme.py"])
    conftest = """
        import pytest, real_tokenizers
        @pytest.fixture(scope="module")
        def tokenizer():
            return real_tokenizers.load("Qwen/Qwen3-8B")
    """
    if real_tokenizers.missing("Qwen/Qwen3-8B"):
        pytest.skip(str(real_tokenizers.missing("Qwen/Qwen3-8B")))
    (installed / "conftest.py").write_text(textwrap.dedent(conftest))
    paths = [str(installed), str(pathlib.Path(real_tokenizers.__file__).parent), str(PAGE.parents[1])]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(installed), str(installed)],
        env={"PYTHONPATH": ":".join(paths), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "HOME": str(installed)},
        capture_output=True,
        text=True,
        cwd=installed,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_the_worked_example_runs():
    exec(compile(files()["use_minimax_m3.py"], "docs/plugins.md", "exec"), {})


def test_files_that_the_page_names_exist():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    table = [name for row in rows for name in re.findall(r"`(\w+\.py)`", row)]
    package = PAGE.parents[1] / "plugins" / "rllm-renderer-minimax-m3" / "rllm_renderer_minimax_m3"
    assert table and all((package / name).exists() for name in table)
