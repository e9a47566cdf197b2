"""What a user's type checker sees of the installed package: types, not ``Any``, and an unknown option is an error."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import venv

import pytest

from rllm_renderer_core import Options

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
from rllm_renderer_core import (
    BridgeDeclined, Message, Options, ParsedResponse, RenderedTokens, Renderer, ResolvedRenderer, Resolution, ToolCall, resolve,
    select_backend,
)
from rllm_renderer_training import Decline, Rollout, Segment, SupervisedExample, supervised

def renderer_for(tokenizer: object, options: Options) -> ResolvedRenderer:
    return resolve("Qwen/Qwen3-8B", tokenizer, **options)

renderer = resolve("Qwen/Qwen3-8B", thinking=False, require_bridge=True)
protocol: Renderer = renderer
messages: list[Message] = [{"role": "user", "content": "Hi"}]
rollout = Rollout(renderer)
bridged = renderer.try_bridge([1], [2], messages)
reveal_type(resolve)
reveal_type(renderer)
reveal_type(renderer.resolution)
reveal_type(renderer.render_ids(messages))
reveal_type(renderer.render(messages))
reveal_type(renderer.parse_response([1]))
reveal_type(renderer.parse_response([1]).tool_calls)
reveal_type(bridged)
reveal_type(rollout.renderer)
reveal_type(rollout.begin(messages))
reveal_type(rollout.record([1], [-0.5], finish_reason="stop"))
reveal_type(rollout.segments)
reveal_type(rollout.declines)
reveal_type(rollout.fork())
reveal_type(select_backend("Qwen/Qwen3-8B"))
reveal_type(supervised(renderer, messages)[0])
resolve("Qwen/Qwen3-8B", thinks=True)
resolve("Qwen/Qwen3-8B", thinking="yes")
rollout.record("It is 3", finish_reason=3)
"""
SEEN = {
    "renderer": "ResolvedRenderer",
    "renderer.resolution": "Resolution",
    "renderer.render_ids(messages)": "list[int]",
    "renderer.render(messages)": "RenderedTokens",
    "renderer.parse_response([1])": "ParsedResponse",
    "renderer.parse_response([1]).tool_calls": "list[ToolCall]",
    "bridged": "BridgedTokens | BridgeDeclined",
    "rollout.renderer": "ResolvedRenderer",
    "rollout.begin(messages)": "list[int]",
    'rollout.record([1], [-0.5], finish_reason="stop")': "ParsedResponse",
    "rollout.segments": "list[Segment]",
    "rollout.declines": "list[Decline]",
    "rollout.fork()": "Rollout",
    'select_backend("Qwen/Qwen3-8B")': "Resolution",
    "supervised(renderer, messages)[0]": "SupervisedExample",
}
REFUSED = {
    'resolve("Qwen/Qwen3-8B", thinks=True)': "call-arg",
    'resolve("Qwen/Qwen3-8B", thinking="yes")': "arg-type",
    'rollout.record("It is 3", finish_reason=3)': "arg-type",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """What mypy says to the script, line by line: the package is in a venv's site-packages, where only py.typed opens it."""
    pytest.importorskip("mypy", reason="not proved what a type checker sees: mypy isn't installed")
    folder = tmp_path_factory.mktemp("typed")
    venv.create(folder / "venv", with_pip=False, system_site_packages=False)
    (site,) = folder.glob("venv/lib/python*/site-packages")
    for package in (ROOT / "rllm_renderer_core", ROOT / "packages" / "rllm-renderer-training" / "rllm_renderer_training"):
        shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    script = folder / "user.py"
    script.write_text(SCRIPT, encoding="utf-8")
    python = folder / "venv" / "bin" / "python"
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "--cache-dir", str(folder / "c")]
    done = subprocess.run([*command, str(script)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = SCRIPT.splitlines()
    found = re.findall(r"^user\.py:(\d+): (.*)$", done.stdout, re.MULTILINE)
    return [(lines[int(number) - 1], said) for number, said in found]


def bare(revealed: str) -> str:
    return re.sub(r"[\w.]*\.(\w+)", r"\1", revealed)


@pytest.mark.parametrize("expression", SEEN)
def test_it_has_its_type(checked: list[tuple[str, str]], expression: str) -> None:
    (said,) = [said for line, said in checked if line == f"reveal_type({expression})"]
    assert bare(said) == f'note: Revealed type is "{SEEN[expression]}"'


def test_resolve_takes_the_options_of_the_documentation_alone(checked: list[tuple[str, str]]) -> None:
    (said,) = [said for line, said in checked if line == "reveal_type(resolve)"]
    assert all(f"'{name}'?: " in said for name in Options.__annotations__) and bare(said).endswith('-> ResolvedRenderer"')


@pytest.mark.parametrize("line", REFUSED)
def test_a_mistake_is_an_error(checked: list[tuple[str, str]], line: str) -> None:
    assert any(line == where and said.endswith(f"[{REFUSED[line]}]") for where, said in checked)


def test_nothing_else_is_wrong(checked: list[tuple[str, str]]) -> None:
    assert {line for line, said in checked if ": error:" in said or said.startswith("error:")} == set(REFUSED)
