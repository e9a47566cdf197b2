"""Conversations for the conformance suite: scripted ones, which name the capability that they need, and generated ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

Messages = list[dict[str, Any]]

ARGUMENTS = {"q": "tea leaves", "deep": True}
REASONING = "Weighing it."


def declared_tools() -> list[dict[str, Any]]:
    """Two tools, made anew, so that a renderer that changes them spoils no other test."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": what,
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
            },
        }
        for name, what in (("look", "Look something up."), ("count", "Count things."))
    ]


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def call(name: str, at: int) -> dict[str, Any]:
    return {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(ARGUMENTS)}}


def result(name: str, at: int, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{at}", "name": name, "content": content}


def assistant(content: str = "", *calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


SYSTEM = {"role": "system", "content": "Be brief."}
OPENING: Messages = [SYSTEM, user("How many apples?")]
TEXT = assistant("four apples")
ONE_CALL = assistant("", call("look", 0))
TWO_CALLS = assistant("", call("look", 0), call("count", 1))


@dataclass(frozen=True)
class Turn:
    """An assistant turn that was sampled, and what follows it. ``needs`` are names of capabilities; tools are declared where it
    has calls, but for renderers without declarations."""

    name: str
    assistant: dict[str, Any]
    new: Messages
    needs: tuple[str, ...] = ()
    declares: bool = True

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        return declared_tools() if self.declares and self.assistant.get("tool_calls") else None

    def undeclared(self) -> Turn:
        """The same without declarations."""
        return replace(self, declares=False)

    def altered(self, index: int) -> Messages:
        """The new messages, one of them with another text."""
        return [{**m, "content": f"zq9 {m['content']}"} if at == index else m for at, m in enumerate(self.new)]


TURNS = (
    Turn("a user", TEXT, [user("And lids?")]),
    Turn("a user with edges", TEXT, [user("  Größe 日本 é😀? \n")]),
    Turn("two users", TEXT, [user("And lids?"), user("And cups?")], ("users_in_a_row",)),
    Turn("a system message and a user", TEXT, [{"role": "system", "content": "Be kind."}, user("Lids?")], ("system_in_new",)),
    Turn("a result", ONE_CALL, [result("look", 0, "five")], ("calls", "results")),
    Turn(
        "a result without name", ONE_CALL, [{"role": "tool", "tool_call_id": "call_0", "content": "five"}], ("calls", "results")
    ),
    Turn("an empty result", ONE_CALL, [result("look", 0, "")], ("calls", "results")),
    Turn("a result and a user", ONE_CALL, [result("look", 0, "five"), user("Sure?")], ("calls", "results")),
    Turn(
        "two results", TWO_CALLS, [result("look", 0, "five"), result("count", 1, "6")], ("calls", "results", "parallel_calls")
    ),
    Turn(
        "results in reverse",
        TWO_CALLS,
        [result("count", 1, "6"), result("look", 0, "five")],
        ("calls", "results", "parallel_calls"),
    ),
)


@dataclass(frozen=True)
class Conversation:
    """A whole conversation to render."""

    name: str
    messages: Messages
    needs: tuple[str, ...] = ()
    declares: bool = False

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        return declared_tools() if self.declares else None

    def undeclared(self) -> Conversation:
        """The same without declarations."""
        return replace(self, declares=False)


CONVERSATIONS = (
    Conversation("a user", [user("How many apples?")]),
    Conversation("a system message and a user", OPENING),
    Conversation("a finished turn", [*OPENING, TEXT]),
    Conversation("a second query", [*OPENING, TEXT, user("And lids?")]),
    Conversation("reasoning", [*OPENING, {**TEXT, "reasoning_content": REASONING}], ("reasoning",)),
    Conversation("tools declared", OPENING, ("declarations",), declares=True),
    Conversation("a call", [*OPENING, ONE_CALL], ("calls",), declares=True),
    Conversation("a result", [*OPENING, ONE_CALL, result("look", 0, "five")], ("calls", "results"), declares=True),
    Conversation(
        "a query after a result",
        [*OPENING, ONE_CALL, result("look", 0, "five"), TEXT, user("Lids?")],
        ("calls", "results"),
        declares=True,
    ),
    Conversation("two results", [*OPENING, TWO_CALLS, *TURNS[8].new], ("calls", "results", "parallel_calls"), declares=True),
)

_WORDS = st.sampled_from(["", " ", "\n", "five", "  edges \n", "Größe 日本", "😀", "None", "{}", "</s>", "a\n\nb", "0042"])
texts = st.one_of(_WORDS, st.lists(_WORDS, max_size=4).map("".join), st.text(max_size=12))
"""Contents of messages: pieces that templates stumble over, and arbitrary text."""


@st.composite
def turns(draw: st.DrawFn, capabilities: Any) -> Turn:
    """Turns of the shapes that the class declares, with generated texts."""
    roles = ["user", "system"] if capabilities.system_in_new else ["user"]
    most = 2 if capabilities.users_in_a_row else 1
    queries = [{"role": draw(st.sampled_from(roles)), "content": draw(texts)} for _ in range(draw(st.integers(0, most)))]
    count = draw(
        st.integers(0, (3 if capabilities.parallel_calls else 1) if capabilities.calls and capabilities.results else 0)
    )
    if not count:
        return Turn("generated", assistant(draw(texts) + "four"), queries or [user(draw(texts))])
    names = [draw(st.sampled_from(["look", "count"])) for _ in range(count)]
    results = [result(name, at, draw(texts)) for at, name in enumerate(names)]
    if draw(st.booleans()):
        results = [{key: value for key, value in each.items() if key != "name"} for each in results]
    results = draw(st.permutations(results))
    calls = [call(name, at) for at, name in enumerate(names)]
    return Turn("generated", assistant("", *calls), [*results, *queries], declares=capabilities.declarations)


def token_lists(special: Sequence[int], plain: Sequence[int]) -> st.SearchStrategy[list[int]]:
    """Ids as no model should sample them: control ids in any order, ordinary ids, and ids that no vocabulary has."""
    known = [*special, *plain] or [0]
    return st.lists(st.one_of(st.sampled_from(known), st.sampled_from(known), st.integers(-2, 2**31)), max_size=24)
