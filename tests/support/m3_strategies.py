"""Hypothesis strategies over MiniMax-M3 conversations, tools and options."""

from __future__ import annotations

import json

from hypothesis import strategies as st

FRAGMENTS = [
    "", " ", "\n", "\n\n", "  ", "\t", "ok", "Hello, world", "the lid. ", "42", "0042", "-3.5e2", "true", "null", "[1, 2]",
    "{}",
    "é", "e\u0301", "\u0338", "猫と犬", "🙂", "\u200b", "\u00a0", "]", "[", "<", ">", "<b>x</b>", "</response>", "<response>",
    "a\r\nb", '"quoted" \\ ', "don't", "x = [[1],[2]]",
]  # fmt: skip
MARKERS = [
    "]~!b[", "]~b]", "[e~[", "]<]minimax[>[", "<mm:think>", "</mm:think>", "<tool_call>", "</tool_call>", "]<]image[>[",
    "<think>", "<filename>", "]!p~[",
]  # fmt: skip
TAILS = ["]~b", "[e~", "]!p~", "]<", "<mm:think", "]~!b", "</mm:thin"]

text = st.lists(st.sampled_from(FRAGMENTS), max_size=4).map("".join)
any_text = st.lists(st.sampled_from(FRAGMENTS + MARKERS + TAILS), max_size=5).map("".join)
# Arbitrary Unicode finds what no list of fragments has; without brackets, so that it spells no marker.
wild = st.one_of(text, st.text(max_size=12).map(lambda found: found.translate(dict.fromkeys(map(ord, "[]<")))))

keys = st.sampled_from(["q", "city", "filename", "n-1", "max_items", "item", "größe"])
scalars = st.one_of(wild, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)), max_leaves=5
)


@st.composite
def conversations(draw, words=wild):
    """Messages in normal roles, with calls and results where the template allows them."""
    messages = []
    head = draw(st.sampled_from(["", "", "s", "d", "r", "rs", "rd"]))
    for letter in head:
        messages.append({"role": {"s": "system", "d": "developer", "r": "root"}[letter], "content": draw(words)})
    called = False
    for kind in draw(st.lists(st.sampled_from("uuaaccttttx"), max_size=7)):
        if kind == "u":
            messages.append({"role": "user", "content": draw(words)})
        elif kind in "ac":
            message = {"role": "assistant", "content": draw(words)}
            if draw(st.booleans()):
                message["reasoning_content"] = draw(words)
            called = kind == "c"
            if called:
                calls = draw(st.lists(st.tuples(st.sampled_from(["look", "put"]), st.dictionaries(keys, values, max_size=3)),
                                      min_size=1, max_size=3))  # fmt: skip
                message["tool_calls"] = [
                    {"type": "function", "function": {"name": n, "arguments": json.dumps(a, ensure_ascii=False)}}
                    for n, a in calls
                ]
            messages.append(message)
        elif kind == "t" and called:
            messages.append({"role": "tool", "content": draw(words)})
        elif kind == "x":
            messages.append({"role": "system", "content": draw(words)})
    return messages


tools = st.sampled_from(
    [
        None,
        [{"type": "function", "function": {"name": "look", "description": "Büro <b>", "parameters": {"type": "object"}}}],
        [
            {"type": "function", "function": {"name": "put", "parameters": {"properties": {}}, "strict": True}},
            {"type": "function", "function": {"description": 'say "x"\n', "name": "look"}},
        ],
    ]
)
options = st.sampled_from(
    [
        {},
        {"thinking_mode": "enabled"},
        {"thinking_mode": "disabled"},
        {"thinking_mode": "adaptive"},
        {"model_identity": "You are a lighthouse keeper.", "thinking_mode": "enabled"},
    ]
)
