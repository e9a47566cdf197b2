"""Every block of README.md and docs/*.md runs as it stands, with its output compared, or says in a comment why it can't."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import real_tokenizers
from readme_loop import Loop

from rllm_renderer_core import resolve, select_backend

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
MODEL = "Qwen/Qwen3-8B"
LANGUAGES = {"python", "console", "toml"}
FENCE = re.compile(r"(?:^<!-- (?P<comment>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
REASON = re.compile(r"not run: (.{20,})")
TALK = [{"role": "user", "content": "How many lids?"}, {"role": "assistant", "content": "Four."}]


@dataclass(frozen=True)
class Block:
    """A fenced block, and the comment right before it."""

    place: str
    language: str
    text: str
    comment: str

    @property
    def runs(self) -> bool:
        return not self.comment.startswith("not run")


def blocks(page: pathlib.Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        line = text.count("\n", 0, block.start("text"))
        yield Block(f"{page.relative_to(ROOT)}:{line}", block["language"], block["text"], block["comment"] or "")


def having(language: str) -> list[pathlib.Path]:
    return [page for page in PAGES if any(block.language == language and block.runs for block in blocks(page))]


def named(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_block_says_its_language_and_if_it_cant_run_why(page: pathlib.Path) -> None:
    assert page.read_text(encoding="utf-8").count("\n```") == 2 * len(list(blocks(page)))
    for block in blocks(page):
        assert block.language in LANGUAGES, block.place
        assert block.runs or REASON.fullmatch(block.comment), f"{block.place}: {block.comment!r} is no reason"


def qwen() -> Any:
    pytest.importorskip("rllm_renderer_prime", reason="not proved: rllm-renderer-prime isn't installed")
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    return real_tokenizers.load(MODEL)


Given = tuple[dict[str, Any], Callable[[dict[str, Any]], None]]
"""The names that a page leaves to its reader, and what must have come of its blocks."""


def a_loop() -> Given:
    loop = Loop(qwen())
    return loop.names(), lambda shown: loop.check()


def training() -> Given:
    """A renderer and a conversation; and for Ray, which the tests don't install, rows that call the mapper in this process."""
    trained: list[dict[str, Any]] = []
    mapped: list[Any] = []

    def map_batches(mapper: Any, *, fn_constructor_args: Any, fn_constructor_kwargs: Any, **how: Any) -> None:
        assert set(how) == {"compute", "batch_format"}
        arrow = pytest.importorskip("pyarrow", reason="not proved: pyarrow isn't installed")
        table = arrow.table({"messages": [json.dumps(TALK)]})
        columns = mapper(*fn_constructor_args, **fn_constructor_kwargs, load=lambda name: qwen())(table)
        mapped.extend(zip(columns["error"], columns["input_ids"], strict=True))

    renderer = resolve(MODEL, qwen())
    ray = SimpleNamespace(data=SimpleNamespace(ActorPoolStrategy=lambda size: size))
    rows = SimpleNamespace(map_batches=map_batches)
    names = {"renderer": renderer, "messages": TALK, "tools": None, "model": MODEL, "ray": ray, "rows": rows}

    def check(shown: dict[str, Any]) -> None:
        (example,) = trained
        answer = renderer.tokenizer.encode("Four.<|im_end|>", add_special_tokens=False)
        assert example["input_ids"][-len(answer) :] == answer
        assert mapped == [("", example["input_ids"])]

    return {**names, "train": lambda **columns: trained.append(columns)}, check


CONTEXTS: dict[str, Callable[[], Given]] = {"README.md": a_loop, "docs/rollouts.md": a_loop, "docs/sft.md": training}


@pytest.mark.parametrize("page", having("python"), ids=named)
def test_the_python_of_a_page_runs(page: pathlib.Path) -> None:
    shown, check = CONTEXTS.get(named(page), lambda: ({}, lambda shown: None))()
    for block in blocks(page):
        if block.language == "python" and block.runs and not is_a_file_of_the_plugin(block):
            exec(compile(block.text, block.place, "exec"), shown)
    check(shown)


@pytest.mark.parametrize("page", having("toml"), ids=named)
def test_what_else_a_page_shows_is_a_file_of_the_plugin(page: pathlib.Path) -> None:
    assert all(is_a_file_of_the_plugin(block) for block in blocks(page) if block.language == "toml")


def is_a_file_of_the_plugin(block: Block) -> bool:
    """Whether the block is what ``rllm-renderer new`` writes: test_docs_plugins.py builds, installs and tests it."""
    pytest.importorskip("click")
    from rllm_renderer_cli.commands.new import plugin_files

    name, _, text = block.text.removeprefix("# ").partition("\n")
    written = plugin_files("acme", "acme/anvil-7b")
    return name in written and written[name].strip("\n") == text.strip("\n")


PINS: dict[str, dict[str, Any]] = {"older.json": {}, "engine.json": {"thinking": False}, "gateway.json": {}}
ANSWERS_NO = {"rllm-renderer check older.json", "rllm-renderer check engine.json gateway.json"}
"""Commands whose exit status is 1, as the pages say."""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where commands run: with the tokenizer that the pages name, their pins, and the two plugins that they are about."""
    pytest.importorskip("click")
    qwen().save_pretrained(tmp_path / "Qwen3-8B")
    pins = {name: select_backend(MODEL, **options).to_dict() for name, options in PINS.items()}
    pins["older.json"] |= {
        "plugin": "rllm-renderer-prime 0.0.9",
        "upstream": {"renderers": "0.1.11"},
        "sources": dict.fromkeys(pins["older.json"]["sources"], "0" * 16),
        "written": "",
    }
    for name, pin in pins.items():
        (tmp_path / name).write_text(json.dumps(pin))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLLM_RENDERER_PLUGINS", "prime,chat-template")
    return tmp_path


def printed(command: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a line of a page prints: ``echo``, ``export`` and ``rllm-renderer``, and whether into a file."""
    from click.testing import CliRunner
    from rllm_renderer_cli.app import cli

    words = shlex.split(command)
    name, *arguments = words[: words.index(">")] if ">" in words else words
    output = ""
    if name == "export":
        variable, _, value = arguments[0].partition("=")
        monkeypatch.setenv(variable, value.replace("$PWD", str(folder)))
    elif name == "echo":
        output = " ".join(arguments) + "\n"
    else:
        assert name == "rllm-renderer", command
        result = CliRunner().invoke(cli, arguments, prog_name=name)
        assert result.exit_code == (command in ANSWERS_NO), f"{command}: {result.stderr} {result.exception!r}"
        output = result.stdout
    if ">" in words:
        (folder / words[-1]).write_text(output, encoding="utf-8")
    return "" if ">" in words else output


@pytest.mark.parametrize("page", having("console"), ids=named)
def test_the_commands_of_a_page_print_what_it_shows(
    page: pathlib.Path, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in blocks(page):
        if block.language != "console" or not block.runs:
            continue
        assert block.text.startswith("$ "), block.place
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            output = "".join(f"{line}\n" for line in printed(command, folder, monkeypatch).splitlines())
            pattern = "".join(
                r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in shown.rstrip().splitlines()
            )
            assert re.fullmatch(pattern, output), f"{block.place}: {command} prints\n{output}"
