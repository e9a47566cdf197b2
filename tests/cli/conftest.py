"""The command line in this process, and in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")


@pytest.fixture
def run() -> Callable[..., Any]:
    """``run("explain", "model", input=...)``: click's result, with ``exit_code``, ``stdout`` and ``stderr``."""
    from click.testing import CliRunner
    from rllm_renderer_cli.app import cli

    def run(*arguments: str, input: str | None = None) -> Any:
        result = CliRunner().invoke(cli, list(arguments), input=input, prog_name="rllm-renderer")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``python(code, *folders)``: a process of its own, with folders in front of ``sys.path``."""

    def python(code: str, *folders: Any) -> subprocess.CompletedProcess[str]:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = [*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")]), root]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=300)

    return python


PLUGIN = """
from rllm_renderer_core import Backend, Coverage, Match, RenderedTokens, ParsedResponse, Unavailable, hookimpl

class Renderer:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
    def render(self, messages, *, tools=None, add_generation_prompt=False):
        ids, owners, sampled = [], [], []
        for index, message in enumerate(messages):
            text = [ord(c) for c in message["content"]]
            ids += [1, *text, 2]
            owners += [-1, *[index] * len(text), index]
            sampled += [False, *[message["role"] == "assistant"] * (len(text) + 1)]
        if add_generation_prompt:
            ids, owners, sampled = [*ids, 1], [*owners, -1], [*sampled, False]
        return RenderedTokens(ids, owners, sampled)
    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt).token_ids
    def parse_response(self, token_ids, *, tools=None, prompt_ids=None):
        return ParsedResponse("".join(map(chr, token_ids)))
    def get_stop_token_ids(self):
        return [2]
    def bridge_to_next_turn(self, p, c, n, *, tools=None, previous_message=None):
        return None

class ToyBackend(Backend):
    name = "toy"
    priority = 60
    upstream = UPSTREAM
    def covers(self, query):
        if query.model == "toy/sick":
            return Unavailable("its vocabulary isn't here", "fetch the vocabulary")
        if query.renderer not in (None, "plain"):
            return None
        return Coverage("plain", Match.EXACT, True, "made for it") if query.model == "toy/one" else None
    def create(self, query, coverage):
        return Renderer(query.tokenizer)
    def renderer_names(self):
        return ["plain"]

@hookimpl
def rllm_renderer_backends():
    return [ToyBackend()]
"""


@pytest.fixture
def toy_source() -> Callable[..., str]:
    """The source of a plugin with one backend ``toy``, which covers ``toy/one`` and wraps what is named."""
    return lambda *upstream: PLUGIN.replace("UPSTREAM", repr(upstream))


class ToyTokenizer:
    name_or_path = "toy/one"
    eos_token_id = 2

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join({1: "<turn>", 2: "<end>"}.get(token, chr(token)) for token in ids)


@pytest.fixture
def toy(install: Any, no_plugins: None, toy_source: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> ToyTokenizer:
    """The toy plugin, installed alone, and ``--tokenizer toy``."""
    from rllm_renderer_core.normal_form import tokenizer as vocabulary

    install("rllm-renderer-toy", source=toy_source())
    tokenizer = ToyTokenizer()
    load = vocabulary.load_tokenizer
    monkeypatch.setattr(vocabulary, "load_tokenizer", lambda name: tokenizer if name == "toy" else load(name))
    return tokenizer
