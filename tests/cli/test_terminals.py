"""What commands print on terminals of 40, 80 and 200 columns, in a pipe, with and without colour, and on bad input.

``snapshots/`` holds it to be looked at: ``pytest tests/cli/test_terminals.py --write-snapshots`` writes it again. What
must hold of any of it is asserted beside: no line is wider than the terminal, and a narrow one loses no word.
"""

from __future__ import annotations

import json
import pathlib
import re

import pytest
from toy_template import TemplateTokenizer, plugin_source

SNAPSHOTS = pathlib.Path(__file__).with_name("snapshots")
COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

TALK = [
    {"role": "system", "content": "Be brief, and say no more than what was asked for."},
    {"role": "user", "content": "How many apples\nare there?"},
    {"role": "assistant", "content": "four"},
]
TITLES = {"backend", "reason", "conversation", "text", "who", "ids", "from", "there", "on"}
"""Of the first and the last column of a table, which a narrow terminal shows as a paragraph a row."""
COMMANDS = {
    "explain": ["explain", "toy/right"],
    "explain, nothing covers it": ["explain", "nobody/knows-this-model"],
    "explain with a tokenizer": ["explain", "toy/trims", "--tokenizer", "toy"],
    "render": ["render", "talk.json", "--tokenizer", "toy", "--model", "toy/right"],
    "render, JSONL": ["render", "talks.jsonl", "--tokenizer", "toy", "--model", "toy/right"],
    "verify, ids differ": ["verify", "toy/trims", "--tokenizer", "toy"],
    "verify of a file": ["verify", "toy/trims", "--tokenizer", "toy", "--messages", "talks.jsonl"],
    "check": ["check", "broken.json"],
    "no such command": ["explian", "x"],
    "no such option": ["render", "--tokeniser", "toy"],
    "no such file": ["render", "missing.json", "--tokenizer", "toy"],
    "a file that is no JSON": ["render", "broken.json", "--tokenizer", "toy"],
    "a message without a role": ["render", "odd.json", "--tokenizer", "toy"],
    "no model": ["render", "talk.json"],
    "a backend that isn't there": ["explain", "toy/right", "--backend", "tinker"],
}


@pytest.fixture
def shown(run, no_plugins, install, tmp_path, monkeypatch):
    """``shown(columns, colour)``: title to everything that the command printed; ``columns=None`` is a pipe."""
    from rllm_renderer_core.normal_form import tokenizer as vocabulary

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vocabulary, "load_tokenizer", lambda name: TemplateTokenizer())
    install("rllm-renderer-toy", source=plugin_source("right", listed={"toy/right": "right", "toy/trims": "trims"}))
    pathlib.Path("talk.json").write_text(json.dumps(TALK))
    pathlib.Path("talks.jsonl").write_text(f'{json.dumps(TALK)}\n[{{"role": "user", "content": " hi "}}]\n')
    pathlib.Path("broken.json").write_text("{")
    pathlib.Path("odd.json").write_text('[{"content": "hi"}]')

    def shown(columns, colour=False):
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("FORCE_COLOR" if colour else "NO_COLOR", "1")
        out = {}
        for title, arguments in COMMANDS.items():
            result = run(*arguments)
            # Progress is on stderr too, on terminals alone.
            said = "".join(line for line in result.stderr.splitlines(True) if line.startswith(("rllm-renderer", "  ")))
            out[title] = f"$ rllm-renderer {' '.join(arguments)}\n{result.stdout}{said}[{result.exit_code}]\n"
        for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
            monkeypatch.delenv(name, raising=False)
        return out

    return shown


@pytest.mark.parametrize("columns", [40, 80, 200, None], ids=lambda columns: str(columns or "pipe"))
def test_what_is_shown_is_what_was_looked_at(shown, columns, pytestconfig):
    found = shown(columns)
    text = "\n".join(found.values())
    assert not COLOUR.search(text) and "Traceback" not in text
    file = SNAPSHOTS / f"{columns or 'pipe'}.txt"
    if pytestconfig.getoption("--write-snapshots"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_narrow_terminals_lose_nothing_and_colours_change_nothing(shown):
    piped, narrow = shown(None), shown(40)
    for title, text in narrow.items():
        lines = text.split("\n")[1:]
        stderr = next((at for at, line in enumerate(lines) if line.startswith("rllm-renderer: ")), len(lines))
        out = lines[:stderr]  # what stderr says isn't wrapped
        assert max(map(len, out), default=0) <= 40, title
        said, whole = " ".join(text.split()), set(piped[title].split())
        lost = {word for word in whole if word not in said and "".join(word.split()) not in "".join(text.split())}
        assert lost <= TITLES, f"{title}: {lost}"
    for columns in (80, 200):
        coloured, plain = shown(columns, colour=True), shown(columns)
        for title, text in coloured.items():
            stripped = [line.rstrip() for line in COLOUR.sub("", text).split("\n")]
            assert stripped == [line.rstrip() for line in plain[title].split("\n")], title
    assert COLOUR.search(coloured["render"]) and COLOUR.search(coloured["verify, ids differ"])
