"""Generated conversations for ``supervised``: text, reasoning, calls and results, and texts that formats stumble on."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

NAMES = ("look", "count", "read_file")
TEXTS = st.one_of(
    st.sampled_from(
        ["Four.", "ok", "Two lids.\n", "\n\nWell", " so ", "a < b", '{"a": [1, 2]}', "x = 1\n\nprint(x)", "été 数", "#"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn", "Co"]), min_size=1, max_size=12).filter(
        str.strip
    ),
)
STUMBLING = st.sampled_from(
    ["a</think>b", "<think>no</think>yes", "<tool_response>\nx\n</tool_response>", "/no_think", "<|im_end|>"]
)
VALUES = st.one_of(
    TEXTS, st.just(""), st.integers(-5, 10**6), st.booleans(), st.none(), st.just(1.5), st.just([1, "a"]), st.just({"k": 1})
)


@st.composite
def conversations(draw: Any, *, calls: bool = True, reasoning: bool = True, stumbling: bool = True) -> list[dict[str, Any]]:
    """Messages that end with an assistant's: one to five of its turns."""
    texts = st.one_of(TEXTS, TEXTS, TEXTS, TEXTS, STUMBLING) if stumbling and draw(st.integers(0, 3)) == 0 else TEXTS
    out: list[dict[str, Any]] = []
    if draw(st.booleans()):
        out.append({"role": "system", "content": draw(texts)})
    number = 0
    out.append({"role": "user", "content": draw(texts)})
    for turn in range(left := draw(st.integers(1, 5))):
        message: dict[str, Any] = {"role": "assistant", "content": draw(texts)}
        if reasoning and draw(st.booleans()):
            message["reasoning_content"] = draw(st.one_of(texts, texts, st.just("")))
        count = draw(st.sampled_from([0, 0, 1, 1, 2])) if calls and turn < left - 1 else 0
        if count:
            message["content"] = draw(st.one_of(st.just(""), texts))
            message["tool_calls"] = made = []
            for _ in range(count):
                name, arguments = (
                    draw(st.sampled_from(NAMES)),
                    draw(st.dictionaries(st.sampled_from("qnk"), VALUES, max_size=2)),
                )
                function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
                made.append({"id": f"functions.{name}:{number}", "type": "function", "function": function})
                number += 1
            out.append(message)
            out += [{"role": "tool", "content": draw(texts), "tool_call_id": each["id"]} for each in made]
            if draw(st.integers(0, 3)) == 0:
                out.append({"role": "user", "content": draw(texts)})
            continue
        out.append(message)
        if turn < left - 1:
            out.append({"role": "user", "content": draw(texts)})
    return out


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} it",
            "parameters": {"type": "object", "properties": {key: {"description": key} for key in "qnk"}},
        },
    }
    for name in NAMES
]
