"""Small conversations that tell chat templates apart, and the turn shapes that a bridge must get right. Plain data.

Each probe is there because real templates differ on it: where the default system text goes, whether old reasoning stays, how
tools are printed, whether parallel results share a turn, whether text is trimmed, what an assistant's turn ends with. Message
texts are ordinary words, so that no probe depends on how a vocabulary treats control tokens; but for those with the tag
``"inline"``, whose texts have reasoning in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Messages = tuple[Mapping[str, Any], ...]


def _tool(name: str, description: str, required: Sequence[str] = (), **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_KIND = {"type": "string", "enum": ["jar", "tin"]}
TOOLS: tuple[Mapping[str, Any], ...] = (
    _tool(
        "look",
        "Look something up; 'quotes' & <tags>.",
        ["q"],
        q={"type": "string", "description": "what"},
        deep={"type": "boolean"},
        where={"type": "object", "properties": {"shelf": {"type": "integer"}, "kind": _KIND}},
        tags={"type": "array", "items": {"type": "string"}},
    ),
    _tool("count", "Count things.", ["q"], q={"type": "string"}),
)
"""Two declarations as serving passes them: OpenAI's wrapper, one with nested parameters."""

FOREIGN_TOOLS: tuple[Mapping[str, Any], ...] = (
    _tool("suche", 'Größer, 日本; "a\\b"\nc.', größe={"type": "number", "default": 0.5, "x": None}),
)
"""A declaration in another script, with what JSON escapes: some renderers write it as ``\\u00f6``, or in Python's spelling."""

FOREIGN_VALUES: tuple[Mapping[str, Any], ...] = (
    _tool("sort", "Sorts.", ["kind"], kind={"type": "string", "enum": ["é", "日"]}),
)
"""A declaration whose values aren't ASCII, which some renderers write as JSON escapes where they don't so with texts."""

NESTED = {"q": 'a "b"\nc', "deep": True, "where": {"shelf": 3, "kind": "jar"}, "tags": ["x", "größer"]}
REASONING = "Weighing it."


def _user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _said(content: str, *calls: dict[str, Any], reasoning: str | None = None) -> dict[str, Any]:
    thought = {} if reasoning is None else {"reasoning_content": reasoning}
    return {"role": "assistant", "content": content, **thought, **({"tool_calls": list(calls)} if calls else {})}


def _call(name: str, at: int, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    # Kimi's templates show a call's id, which has this form there.
    text = json.dumps(arguments or {"q": "tea"}, ensure_ascii=False)
    return {"id": f"functions.{name}:{at}", "type": "function", "function": {"name": name, "arguments": text}}


def _result(name: str, at: int, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"functions.{name}:{at}", "name": name, "content": content}


SYSTEM = {"role": "system", "content": "Be brief."}
LIDS = _user("And lids?")
OPENING: Messages = (SYSTEM, _user("How many apples?"))
FIVE = _result("look", 0, "five")
FOUR = _said("four apples")
ONE_CALL = _said("", _call("look", 0))
TWO_CALLS = _said("", _call("look", 0), _call("count", 1))


@dataclass(frozen=True)
class Probe:
    """One conversation, in normal form (see ``rllm_renderer_core.normal_form.messages``), named by what tells it apart.

    ``tags`` are groups that a backend can name in ``deviations``: ``"system"``, ``"reasoning"``, ``"tools"`` (declared),
    ``"calls"``, ``"results"``, ``"order"`` (of roles), ``"whitespace"``, ``"inline"`` (reasoning in the text),
    ``"letters"`` (of any script, in a declaration's values), ``"no generation prompt"``.
    """

    name: str
    messages: Messages
    generation_prompt: bool = True
    tools: Sequence[Mapping[str, Any]] | None = None
    tags: frozenset[str] = frozenset()


def _probe(
    name: str,
    *messages: Mapping[str, Any],
    generation_prompt: bool = True,
    tools: bool | Sequence[Mapping[str, Any]] = False,
    tags: str = "",
) -> Probe:
    facts = {
        "tools": bool(tools),
        "no generation prompt": not generation_prompt,
        "calls": any("tool_calls" in message for message in messages),
        "results": any(message["role"] == "tool" for message in messages),
        "reasoning": any("reasoning_content" in message for message in messages),
    }
    known = {*tags.split(","), *(tag for tag, fact in facts.items() if fact)} - {""}
    return Probe(name, messages, generation_prompt, TOOLS if tools is True else tools or None, frozenset(known))


PROBES: tuple[Probe, ...] = (
    # Roles and their order; both endings.
    _probe("a user", _user("How many apples?"), tags="system"),
    _probe("a system message and a user", *OPENING, tags="system"),
    _probe("a finished turn", *OPENING, FOUR, generation_prompt=False),
    _probe("a second query", _user("How many apples?"), FOUR, LIDS),
    _probe("two users in a row", *OPENING, FOUR, LIDS, _user("And cups?"), tags="order"),
    _probe("a system message in the middle", *OPENING, FOUR, {"role": "system", "content": "Be kind."}, LIDS, tags="order"),
    _probe("an empty answer in the history", *OPENING, _said(""), LIDS, tags="order"),
    _probe("no user", SYSTEM, FOUR, generation_prompt=False, tags="order"),
    # Reasoning, now and in history, as a field and in the text.
    _probe("reasoning in the last turn", *OPENING, _said("four apples", reasoning=REASONING), generation_prompt=False),
    _probe("reasoning before a second query", *OPENING, _said("four apples", reasoning=REASONING), LIDS),
    _probe("reasoning before a call", *OPENING, _said("", _call("look", 0), reasoning=REASONING), FIVE, tools=True),
    _probe(
        "reasoning in two rounds of calls, then a query",
        *OPENING, _said("", _call("look", 0), reasoning="First."), FIVE,
        _said("", _call("count", 1), reasoning="Second."), _result("count", 1, "6"),
        _said("eleven", reasoning="Third."), LIDS, tools=True,
    ),
    _probe("reasoning with edges", *OPENING, _said("four apples", reasoning="\nwhy\n"), generation_prompt=False),
    _probe("reasoning with edges before a call", *OPENING, _said("", _call("look", 0), reasoning="\nwhy\n"), FIVE, tools=True),
    _probe("reasoning in the text", *OPENING, _said("<think>\nwhy\n</think>\n\nfour"), generation_prompt=False, tags="inline"),
    _probe(
        "reasoning in the text, in the history",
        _user("How many apples?"), _said("<think>why</think>four"), LIDS, tags="inline",
    ),
    _probe("only the end of reasoning in the text", *OPENING, _said("why</think>four"), generation_prompt=False, tags="inline"),
    # Tool declarations.
    _probe("tools, no system message", _user("How many apples?"), tools=True, tags="system"),
    _probe("tools and a system message", *OPENING, tools=True, tags="system"),
    _probe("a tool in another script", *OPENING, tools=FOREIGN_TOOLS),
    _probe("a tool with values in another script", *OPENING, tools=FOREIGN_VALUES, tags="letters"),
    # Calls and results.
    _probe("a call", *OPENING, ONE_CALL, generation_prompt=False, tools=True),
    _probe("a call with nested arguments", *OPENING, _said("", _call("look", 0, NESTED)), FIVE, tools=True),
    _probe("text beside a call", *OPENING, _said("Let me see.", _call("look", 0)), FIVE, tools=True),
    _probe("two calls and their results", *OPENING, TWO_CALLS, FIVE, _result("count", 1, "6"), tools=True),
    _probe("a query after a result", *OPENING, ONE_CALL, FIVE, _said("five"), LIDS, tools=True),
    _probe("a query right behind a result", *OPENING, ONE_CALL, FIVE, _user("Sure?"), tools=True),
    _probe(
        "an answer after an empty result",
        *OPENING, ONE_CALL, _result("look", 0, ""), _said("none"), generation_prompt=False, tools=True,
    ),
    # Text as people write it.
    _probe(
        "white space at the edges",
        {"role": "system", "content": " Be brief.\n"}, _user("\n  How many?  \n\n"), _said(" four\n"), _user(" And lids? \n"),
        tags="whitespace,system",
    ),
    _probe("an answer that starts with a blank line", *OPENING, _said("\n\nfour"), generation_prompt=False, tags="whitespace"),
    _probe(
        "texts that start with blank lines",
        {"role": "system", "content": "\nBe brief."}, _user("\n\nHow many apples?"), _said("\n\nfour"), _user("\nAnd lids?"),
        tags="whitespace,system",
    ),
    _probe(
        "blank lines beside a call and before its result",
        *OPENING, _said("\n\nLet me see.\n\n", _call("look", 0)), _result("look", 0, "\n\nfive"),
        tools=True, tags="whitespace",
    ),
    _probe(
        "unicode and blank lines",
        _user("Größe 日本\n\n\né😀"), _said("четыре\n\n    x"), _user("\u00a0Și?"), tags="whitespace",
    ),
    _probe(
        "a result as JSON with edges",
        *OPENING, ONE_CALL, _result("look", 0, ' {"n": 5, "of": ["größer"]}\n'), tools=True, tags="whitespace",
    ),
)  # fmt: skip
"""What a parity check renders."""


@dataclass(frozen=True)
class TurnShape:
    """An assistant turn that was sampled behind ``OPENING``, and the new messages behind it."""

    name: str
    assistant: Mapping[str, Any]
    new: Messages

    @property
    def tools(self) -> Sequence[Mapping[str, Any]] | None:
        return TOOLS if "tool_calls" in self.assistant else None


TURN_SHAPES: tuple[TurnShape, ...] = (
    TurnShape("a user", FOUR, (LIDS,)),
    TurnShape("two users", FOUR, (LIDS, _user("And cups?"))),
    TurnShape("one result", ONE_CALL, (FIVE,)),
    TurnShape("two results", TWO_CALLS, (FIVE, _result("count", 1, "6"))),
    TurnShape("results in reverse", TWO_CALLS, (_result("count", 1, "6"), FIVE)),
    TurnShape("a result and a user", ONE_CALL, (FIVE, _user("Sure?"))),
    TurnShape("an empty result", ONE_CALL, (_result("look", 0, ""),)),
    TurnShape("unicode and edges", FOUR, (_user("  Größe 日本 é😀? \n"),)),
    TurnShape("a system message and a user", FOUR, ({"role": "system", "content": "Be kind."}, LIDS)),
)
"""The nine shapes of new messages that a bridge check tries."""
