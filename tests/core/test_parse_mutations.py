"""Damaged completions of eleven formats: nothing raises, what is lossless has every letter, an OK call is what stands there.

A small sample of each format; thousands on each backend with ``--whole``.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter

import pytest
import shapes
from parse_formats import GLM, M2, QWEN, TOOLS, V4, served
from sampling import how_many, one_each
from served import covers

from rllm_renderer_core import Termination
from rllm_renderer_core.errors import MessageError, RenderError

COUNT = how_many(60, 2_000)
DSML = "｜DSML｜"
NS = re.escape("]<]minimax[>[")
TAGS = {
    QWEN: r"<parameter=(?P<key>[^>\n]+)>\n?(?P<value>.*?)(?:\n</parameter>|</parameter>(?=\s*<))",
    GLM: r"<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>",
    M2: r'<parameter name="(?P<key>[^"\n]+)">(?P<value>.*?)</parameter>',
    V4: rf'<{DSML}parameter name="(?P<key>[^"\n]+)" string="\w+">(?P<value>.*?)</{DSML}parameter>',
    "MiniMaxAI/MiniMax-M3": rf"{NS}<(?P<key>path|n|i|deep)>(?P<value>.*?){NS}</(?P=key)>",
    "google/gemma-4-E2B-it": r'(?<=[{,])\s*(?P<key>[^:{}\[\],]+?)\s*:\s*(?:<\|"\|>(?P<value>.*?)<\|"\|>|(?P<other>[^,}]+))',
}
"""How a parameter is written, where the arguments aren't JSON."""
FORMATS = [
    ("prime", "Qwen/Qwen3-8B"), ("chat-template", "Qwen/Qwen3-8B"), ("prime", QWEN), ("tinker", QWEN), ("prime", GLM),
    ("fireworks", GLM), ("prime", M2), ("fireworks", V4), ("tml", V4), ("tinker", "deepseek-ai/DeepSeek-V3.1"),
    ("prime", "moonshotai/Kimi-K2.6"), ("prime", "openai/gpt-oss-20b"), ("chat-template", "openai/gpt-oss-20b"),
    ("prime", "google/gemma-4-E2B-it"),
    ("minimax-m3", "MiniMaxAI/MiniMax-M3"), ("chat-template", "meta-llama/Llama-3.1-8B-Instruct"),
    ("fireworks", "mistralai/Ministral-3-14B-Reasoning-2512"),
]  # fmt: skip
FRAME = re.compile(
    r"tool_calls>|</?\0?(?:minimax:)?(?:function|parameter|invoke|tool_calls?)\b[>=]?|analysis|commentary|final|assistant|thought|json|code|"
    r"function|response|think|[\s<>/]"
)
"""Words and tags that formats write beside control tokens."""


def call(at, **arguments):
    return {"id": f"functions.rm:{at}", "type": "function", "function": {"name": "rm", "arguments": json.dumps(arguments)}}


TURNS = [
    {"role": "assistant", "content": text, "reasoning_content": "why not", "tool_calls": calls}
    for text, calls in (
        ("", [call(0, path="/tmp/a b", n=7, deep=False)]),
        ("Both first.", [call(0, path='it\'s "x"', i=3), call(1, path="two\nlines", n=1.5)]),
        ("No call.", []),
    )
]


def written(resolved, turn):
    """The completion that gives this turn: what the renderer's own render has behind the prompt, up to its stop."""
    given = {key: value for key, value in turn.items() if value}
    given.setdefault("content", "")
    prompt = resolved.render_ids([shapes.user("ping")], tools=TOOLS, add_generation_prompt=True)
    whole = resolved.render_ids([shapes.user("ping"), given], tools=TOOLS)
    shared = next((at for at, (a, b) in enumerate(zip(prompt, whole, strict=False)) if a != b), len(prompt))
    stops = set(resolved.get_stop_token_ids())
    end = next((at for at in range(len(whole) - 1, shared, -1) if whole[at] in stops), len(whole) - 1)
    return whole[:shared], whole[shared : end + 1]


def damaged(ids, chance, control, spelled):
    """One completion: cut, ids dropped, doubled or swapped, a control id put anywhere, or one spelled as ordinary text."""
    ids = list(ids)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at, kind = chance.randrange(len(ids)), chance.randrange(7)
        if kind == 0:
            del ids[max(1, at) :]
        elif kind == 1:
            del ids[at : at + chance.choice((1, 1, 2, 4))]
        elif kind == 2:
            ids.insert(at, ids[at])
        elif kind == 3:
            other = chance.randrange(len(ids))
            ids[at], ids[other] = ids[other], ids[at]
        elif kind == 4:
            ids.insert(at, chance.choice(control))
        elif kind == 5:
            ids[at:at] = chance.choice(spelled)
        else:
            start = chance.randrange(len(ids))
            ids[at:at] = ids[start : start + chance.randrange(1, 8)]
        ids = ids or [0]
    return ids


def letters(text):
    return Counter(text) - Counter({letter: len(text) for letter in " \n<>/"})


def ordinary_runs(tokenizer, ids, known):
    """The text of ids in pieces, each with whether ordinary ids have it."""
    out, run = [], []
    for token in [*ids, None]:
        if token is not None and token not in known:
            run.append(token)
            continue
        out.append((tokenizer.decode(run), True))
        if token is not None:
            out.append((known[token], False))
        run = []
    return out


def ordinary(piece, runs):
    """The ordinary text of a stretch of the shown text, run by run."""
    start, at = piece[0], 0
    for text, plain in runs:
        low, high = max(start, at), min(piece[1], at + len(text))
        if plain and low < high:
            yield text[low - at : high - at]
        at += len(text)


def masked(tokenizer, ids, known):
    """The text of ids, with another first letter where ordinary ids spell a control token; as long as the text."""
    out = []
    for text, plain in ordinary_runs(tokenizer, ids, known):
        for mark in known.values() if plain else ():
            text = text.replace(mark, chr(0xE000 + ord(mark[0])) + mark[1:]) if ord(mark[0]) < 128 else text
        out.append(text)
    return "".join(out)


def unmasked(text):
    return re.sub("[\ue000-\ue07f]", lambda found: chr(ord(found[0]) - 0xE000), text)


def said(model, raw):
    """The arguments that a call's raw text has, read here: each as the text that it is; ``None`` where they are JSON."""
    pattern = TAGS.get(model)
    if pattern is None:
        return None
    found = [{"other": None, **each.groupdict()} for each in re.finditer(pattern, raw, re.DOTALL)]
    return sorted(
        (unmasked(each["key"]).strip(), unmasked(each["other"] if each["value"] is None else each["value"])) for each in found
    )


def means(text, value):
    if value == text:
        return True
    try:
        other = json.loads(text.strip().lower() if text.strip().lower() in ("true", "false", "null", "none") else text)
    except ValueError:
        other = None if text.strip().lower() == "none" else text
    return (type(other) is type(value) and other == value) or (isinstance(value, float) and other == value)


def objects(raw):
    """Every JSON object in a text, those within others too."""
    decoder = json.JSONDecoder()
    for at in (at for at, letter in enumerate(raw) if letter == "{"):
        try:
            yield decoder.raw_decode(raw, at)[0]
        except ValueError:
            continue


@pytest.mark.parametrize(("backend", "model"), one_each([row for row in FORMATS if covers(*row[::-1])], key=lambda row: row[1]))
def test_nothing_gets_through(backend, model):
    resolved, tokenizer = served(backend, model)
    chance = random.Random(11)
    turns = []
    for turn in TURNS:
        try:
            turns.append(written(resolved, turn))
        except (RenderError, MessageError):  # text beside calls, or two calls, where the format has only one of them
            continue
    known = {index: text for text, index in tokenizer.get_added_vocab().items()}
    control = sorted({token for _, ids in turns for token in ids if token in known})
    spelled = [[*shapes.encode(tokenizer, known[one][:1]), *shapes.encode(tokenizer, known[one][1:])] for one in control]
    lossless = runnable = 0
    for _ in range(COUNT):
        prompt, whole = chance.choice(turns)
        ids = damaged(whole, chance, control, spelled)
        out = resolved.parse_response(ids, tools=TOOLS, prompt_ids=prompt)
        assert out.lossless is (out.loss is None)
        shown, hidden = tokenizer.decode(ids), masked(tokenizer, ids, known)
        at, outside, raws = 0, [], {}
        for found in out.tool_calls:
            raw = found.raw if found.raw in shown[at:] else found.raw.strip()
            start = shown.find(raw, at) if raw else -1
            if out.lossless and raw:
                assert start >= 0, (shown, raw)
            if start >= 0:
                outside.append((at, start))
                at = start + len(raw)
                raws[found.raw] = hidden[start:at] if len(hidden) == len(shown) else raw
        runs = ordinary_runs(tokenizer, ids, known)
        aligned = len("".join(text for text, _ in runs)) == len(shown)
        if (
            out.lossless and aligned and all(len(found.raw.strip()) > 16 for found in out.tool_calls)
        ):  # where a shorter one stands isn't sure
            rest = [each for piece in (*outside, (at, len(shown))) for each in ordinary(piece, runs)]
            kept = letters(f"{out.reasoning_content or ''}{out.content}")
            # A completion may be cut off inside words of the format.
            tail = letters(shown[-16:]) if out.termination is Termination.TRUNCATED else Counter()
            missing = letters("".join(FRAME.sub("", each) for each in rest)) - kept - tail
            added = kept - letters("".join(shown[start:end] for start, end in (*outside, (at, len(shown)))))
            assert not missing and not added, (missing, added, shown, out, [found.raw for found in out.tool_calls])
        for found in out.runnable:
            assert found.name == "rm" and "rm" in found.raw, (shown, found)
            assert isinstance(found.arguments, dict)
            pairs = said(model, raws[found.raw])
            if pairs is None:
                assert any(each == found.arguments for each in objects(found.raw)), (shown, found)
            else:
                assert [key for key, _ in pairs] == sorted(found.arguments), (shown, found, pairs)
                assert all(means(text, found.arguments[key]) for key, text in pairs), (shown, found, pairs)
        lossless += out.lossless
        runnable += bool(out.runnable)
    assert lossless and runnable
