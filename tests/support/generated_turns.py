"""Assistant turns drawn by a seed, and the completions that a chat template makes of them.

A completion is what a render shows behind the user's message, without what the prompt already has; its truth is the message
itself. Nothing here is taken from the learned parser.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core import Termination, ToolCallStatus

USER = {"role": "user", "content": "zq7 go"}
_OPENING = re.compile(r"((?!<\|END|<\|assistant)<\|\w+\|?>|<\w+>|\[[A-Z]+\])\s*$")
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": []}
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}}


TEXT = {"type": "string"}
TOOLS = [
    _tool("get_weather", city=TEXT, unit={"type": "string", "enum": ["C", "F"]}, days={"type": "integer"}),
    _tool("run", code=TEXT, path=TEXT, timeout={"type": "number"}, check={"type": "boolean"}),
    _tool(
        "book-table",
        guests={"type": "array", "items": TEXT},
        seats={"type": "array", "items": {"type": "integer"}},
        where={"type": "object", "properties": {"room": TEXT, "floor": {"type": "integer"}, "quiet": {"type": "boolean"}}},
        note=TEXT,
    ),
    _tool("ping"),
]
# Texts that look like other values, like code, like markup.
WORDS = (
    "tea", "Zürich", "日本 東京", "😀 ok", "O'Brien", 'say "hi"', "a\\b", "123", "true", "null", "1.50", "[1, 2]", '{"a": 1}',
    "", "x = 1\nif x != y , z:\n\tprint(x)\n", "line one\n\nline two", "a < b && c > d", "<b>bold</b>", "100 %", "50€",
    "C:\\new\\table", "key=value, other=2", "(nested (brackets))", "https://example.org/?q=1&r=2#top",
    "  two spaces inside  text", "- a\n- b",
)  # fmt: skip
THOUGHTS = ("Short.", "Let me see: 2 < 3.\n\nSo yes.", "größer — \"quoted\", 'so'.\n- a\n- b", 'First tea,\nthen {"a": 1}.')
SAYINGS = (
    "Sure.",
    "I will look.\n\n1. first\n2. then",
    "**Yes** — 日本, naïve.",
    'See `f(x)` and {"k": [1]}.',
    "Done: <b>ok</b>!",
)


def _value(schema: dict[str, Any], draw: random.Random) -> Any:
    kind = schema["type"]
    if "enum" in schema:
        return draw.choice(schema["enum"])
    if kind == "string":
        return draw.choice(WORDS)
    if kind == "integer":
        return draw.choice((0, 7, -3, 123456789012))
    if kind == "number":
        return draw.choice((0.5, 2.25, -1.75, 30.0))
    if kind == "boolean":
        return draw.random() < 0.5
    if kind == "array":
        return [_value(schema["items"], draw) for _ in range(draw.choice((0, 1, 2, 3)))]
    return {key: _value(each, draw) for key, each in schema["properties"].items() if draw.random() < 0.7}


@dataclass(frozen=True)
class Drawn:
    """A turn: reasoning, content, and calls as names and arguments."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, dict[str, Any]], ...]


def drawn(seed: str, count: int, *, calls_always: bool = False) -> list[Drawn]:
    """``count`` turns, the same for the same seed."""
    draw = random.Random(seed)
    out = []
    for _ in range(count):
        calls = []
        for _ in range(draw.choice((1, 1, 1, 2, 2, 3) if calls_always else (0, 1, 1, 1, 2, 3))):
            function = draw.choice(TOOLS)["function"]
            properties = function["parameters"]["properties"]
            calls.append(
                (function["name"], {key: _value(each, draw) for key, each in properties.items() if draw.random() < 0.7})
            )
        content = draw.choice(SAYINGS) if not calls or draw.random() < 0.3 else ""
        out.append(Drawn(draw.choice(THOUGHTS) if draw.random() < 0.5 else "", content, tuple(calls)))
    return out


class Template:
    """A tokenizer's chat template, and how it wants turns handed to it: found by rendering.

    Attributes:
        shows_calls: Whether a turn's calls show at all.
        shows_reasoning: Whether its reasoning does.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.history = [USER]
        if self._render([], True) is None:
            self.history = [{"role": "system", "content": "Be brief."}, USER]
        self.as_text, self.empty, self.key, self.ids = False, "", REASONING_KEYS[0], False
        self.shows_calls = self._find_calls()
        self.shows_reasoning = self._find_reasoning()

    def _find_calls(self) -> bool:
        several = (("get_weather", {"city": "qqvv"}), ("run", {"code": "wwqq"}))
        return any(self._finds(Drawn("", "", calls)) for calls in (several, several[:1]))  # a template may have one a turn

    def _finds(self, probe: Drawn) -> bool:
        for self.as_text in (False, True):
            for self.empty in ("", None):
                for self.ids in (False, True):
                    text = self._render([self.message(probe)], False) or ""
                    behind = text[text.rfind("zq7 go") :]
                    if "qqvv" in behind and "get_weather" in behind and "None" not in behind and "{'city'" not in behind:
                        return True
        return False

    def _find_reasoning(self) -> bool:
        for self.key in REASONING_KEYS:
            text = self._render([self.message(Drawn("rrqqvv", "ccqqvv", ()))], False) or ""
            behind = text[text.rfind("zq7 go") :]
            if "rrqqvv" in behind and "ccqqvv" in behind[behind.index("rrqqvv") :]:
                return True
        return False

    def message(self, turn: Drawn) -> dict[str, Any]:
        out: dict[str, Any] = {"role": "assistant", "content": turn.content or (self.empty if turn.calls else "")}
        if turn.reasoning:
            out[self.key] = turn.reasoning
        if turn.calls:
            out["tool_calls"] = [
                {
                    "id": f"functions.{name}:{at}" if self.ids else f"abcd0000{at}",
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": json.dumps(arguments, ensure_ascii=False) if self.as_text else arguments,
                    },
                }
                for at, (name, arguments) in enumerate(turn.calls)
            ]
        return out

    def _render(self, more: list[dict[str, Any]], opener: bool) -> str | None:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    copy.deepcopy(self.history + more), tools=copy.deepcopy(TOOLS), tokenize=False, add_generation_prompt=opener
                )
            )
        except Exception:
            return None

    def shown(self, turn: Drawn) -> str | None:
        return self._render([self.message(turn)], False)

    def completion(self, turn: Drawn, stops: list[str]) -> tuple[str, str, Drawn] | None:
        """The prompt, the completion with its stop, and the turn as far as the template shows it; ``None`` where none makes it.

        Behind a prompt that opens reasoning which history doesn't show, the completion closes it.
        """
        prompt, shown = self._render([], True), self.shown(turn)
        if prompt is None or shown is None or "zq7 go" not in shown:
            return None
        mine, theirs = shown[shown.rindex("zq7 go") :], prompt[prompt.rindex("zq7 go") :]
        low = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
        low = mine.rindex("<", 0, low) if "<" in mine[:low] and ">" not in mine[mine.rindex("<", 0, low) : low] else low
        extra, body = theirs[low:], mine[low:]
        shows = turn.reasoning if turn.reasoning and turn.reasoning.strip() in body else ""
        if extra.strip():
            body = body[max(size for size in range(len(body) + 1) if extra.endswith(body[:size])) :]
            opened = _OPENING.search(extra)
            if shows and not opened:
                return None  # behind a prompt that closed the reasoning none is sampled
            if shows:
                body = body[body.index(turn.reasoning) :]
            elif opened:
                close = opened[1].replace("START", "END") if "START" in opened[1] else f"{opened[1][0]}/{opened[1][1:]}"
                closed = body.lstrip().startswith(close)
                shows, body = "Hm.", f"Hm.{body}" if closed else f"Hm.\n{close}\n\n{body}"
        ends = [at for stop in stops if (at := body.find(stop)) >= 0]
        end = min(ends, default=None)
        if end is None:
            body = body.rstrip() + stops[0]
        else:
            if turn.calls and turn.calls[-1][0] in body[end:]:
                return None  # a stop in the middle of the turn (DeepSeek V3, several calls)
            stop = next(each for each in stops if body.startswith(each, end))
            body = body[: end + len(stop)]
        return prompt, body, Drawn(shows, turn.content if turn.content.strip() in body else "", turn.calls)

    def ids_of(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def completions(
        self, turns: Iterable[Drawn], stop_ids: Iterable[int]
    ) -> Iterator[tuple[list[int], list[int], Drawn, Drawn]]:
        """Ids of the prompt and of the completion, the turn as it shows, and as it was drawn; for those that one makes.

        Where no stop shows, the tokenizer's own ends the turn.
        """
        own = self.tokenizer.eos_token_id
        stops = self.tokenizer.convert_ids_to_tokens(sorted(stop_ids, key=lambda token: token != own))
        for turn in turns:
            made = self.completion(turn, stops)
            if made is not None:
                prompt, body, shown = made
                yield self.ids_of(prompt), self.ids_of(body), shown, turn


def verdicts(template: Template, parser: Any, turns: Iterable[Drawn], stop_ids: Iterable[int]) -> Counter[str]:
    """How many of the turns a parser reads how."""
    found = Counter[str]()
    for prompt, ids, shown, turn in template.completions(turns, stop_ids):
        parsed = parser.parse_response(ids, tools=TOOLS, prompt_ids=prompt)
        found[verdict(template, parsed, shown, turn)] += 1
    return found


def verdict(template: Template, parsed: Any, turn: Drawn, original: Drawn) -> str:
    """``right``; ``alike`` (another turn that the template writes in the same way); ``flagged``; or ``wrong``."""
    if (
        parsed.termination is not Termination.STOP
        or not parsed.lossless
        or any(call.status is not ToolCallStatus.OK for call in parsed.tool_calls)
    ):
        return "flagged"
    read = tuple((call.name, call.arguments) for call in parsed.tool_calls)
    same_text = (parsed.content.strip(), (parsed.reasoning_content or "").strip()) == (
        turn.content.strip(),
        turn.reasoning.strip(),
    )
    if same_text and _canonical(read) == _canonical(turn.calls):
        return "right"
    if any(not isinstance(arguments, dict) for _, arguments in read):
        return "wrong"
    again = Drawn(original.reasoning, original.content, read)
    if not same_text:  # harmony's template shows text beside a call as reasoning
        again = Drawn(parsed.reasoning_content or "", parsed.content, read)
    return "alike" if template.shown(again) == template.shown(original) else "wrong"


def _canonical(calls: Any) -> str:
    return json.dumps([[name, arguments] for name, arguments in calls], sort_keys=True)
