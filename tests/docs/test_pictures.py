"""The pictures are of real ids, and README and the pages show files that exist."""

from __future__ import annotations

import html
import json
import pathlib
import re

import pytest
import real_tokenizers

from rllm_renderer_core import resolve

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
MODEL = "Qwen/Qwen3-8B"
THEMES = ("light", "dark")


def described(name):
    """What a picture says of itself."""
    text = (PICTURES / name).read_text(encoding="utf-8")
    return json.loads(html.unescape(re.search(r"<dc:description>(.*?)</dc:description>", text, re.DOTALL)[1]))


@pytest.mark.parametrize("theme", THEMES)
def test_the_picture_of_drift_has_the_ids_that_the_renderer_gives(theme, shown):
    if reason := real_tokenizers.missing(MODEL):
        pytest.skip(reason)
    prompt, completion = shown["P"], shown["C"]
    renderer = resolve(MODEL, real_tokenizers.load(MODEL))
    message = renderer.parse_response(completion, prompt_ids=prompt).to_message()
    result = {"role": "tool", "content": "green", "tool_call_id": message["tool_calls"][0]["id"]}
    bridged = renderer.bridge_to_next_turn(prompt, completion, [result], previous_message=message).token_ids
    messages = [*shown["messages"], message, result]
    again = renderer.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    drawn = described(f"drift-{theme}.svg")
    place = slice(19, 25)
    assert drawn["sampled"] == drawn["bridged"] == bridged[place] == [*prompt, *completion][place]
    assert drawn["rendered again"] == again[place] != bridged[place]
    assert drawn["appended"] == bridged[len(prompt) + len(completion) :][:2]


@pytest.mark.parametrize("theme", THEMES)
def test_the_plot_shows_what_was_measured(theme):
    assert described(f"cost-{theme}.svg") == json.loads((PICTURES / "cost.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))], ids=lambda page: page.name)
def test_each_picture_of_a_page_exists(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r'(?:src|srcset)="([^"]+)"|!\[[^]]*\]\(([^)]+)\)', text):
        assert (page.parent / "".join(name)).is_file(), name
