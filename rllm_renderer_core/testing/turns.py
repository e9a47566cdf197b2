"""Conversations for the conformance suite: scripted ones, which name the capability that they need, and generated ones."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

Messages = list[dict[str, Any]]
Case = TypeVar("Case", bound="Conversation")

ARGUMENTS = {"q": "tea leaves", "deep": True}
REASONING = "Weighing it."


def declared_tools() -> list[dict[str, Any]]:
    """Two tools, made anew, so that a renderer that changes them spoils no other test."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    declared = {"look": "Look something up.", "count": "Count things."}.items()
    functions = [{"name": name, "description": what, "parameters": copy.deepcopy(schema)} for name, what in declared]
    return [{"type": "function", "function": function} for function in functions]


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
class Conversation:
    """A conversation to render. Tools are declared where it has calls or shows declarations, but for renderers without them."""

    name: str
    messages: Messages
    more_needs: tuple[str, ...] = ()
    declares: bool = True

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the capabilities that a renderer must have."""
        calls = max(len(message.get("tool_calls", ())) for message in self.messages)
        results = any(message["role"] == "tool" for message in self.messages)
        shown = {"calls": calls > 0, "results": results, "parallel_calls": calls > 1}
        return (*(name for name, shows in shown.items() if shows), *self.more_needs)

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        return declared_tools() if self.declares and {"calls", "declarations"}.intersection(self.needs) else None

    def altered(self: Case, index: int) -> Case:
        """The same with another text in one message."""
        message = self.messages[index]
        other = {**message, "content": f"zq9 {message['content']}"}
        return replace(self, messages=[*self.messages[:index], other, *self.messages[index + 1 :]])


class Turn(Conversation):
    """An assistant's turn that was sampled, and the messages that follow it."""

    @property
    def assistant(self) -> dict[str, Any]:
        return self.messages[0]

    @property
    def new(self) -> Messages:
        return self.messages[1:]


FIVE = result("look", 0, "five")
RESULTS = [FIVE, result("count", 1, "6")]
TURNS = (
    Turn("a user", [TEXT, user("And lids?")]),
    Turn("a user with edges", [TEXT, user("  Größe 日本 é😀? \n")]),
    Turn("two users", [TEXT, user("And lids?"), user("And cups?")], ("users_in_a_row",)),
    Turn("a system message and a user", [TEXT, {"role": "system", "content": "Be kind."}, user("Lids?")], ("system_in_new",)),
    Turn("a result", [ONE_CALL, FIVE]),
    Turn("a result without name", [ONE_CALL, {"role": "tool", "tool_call_id": "call_0", "content": "five"}]),
    Turn("an empty result", [ONE_CALL, result("look", 0, "")]),
    Turn("a result and a user", [ONE_CALL, FIVE, user("Sure?")]),
    Turn("two results", [TWO_CALLS, *RESULTS]),
    Turn("results in reverse", [TWO_CALLS, *RESULTS[::-1]]),
)
CONVERSATIONS = (
    Conversation("a user", [user("How many apples?")]),
    Conversation("a system message and a user", OPENING),
    Conversation("a finished turn", [*OPENING, TEXT]),
    Conversation("a second query", [*OPENING, TEXT, user("And lids?")]),
    Conversation("reasoning", [*OPENING, {**TEXT, "reasoning_content": REASONING}], ("reasoning",)),
    Conversation("tools declared", OPENING, ("declarations",)),
    Conversation("a call", [*OPENING, ONE_CALL]),
    Conversation("a result", [*OPENING, ONE_CALL, FIVE]),
    Conversation("a query after a result", [*OPENING, ONE_CALL, FIVE, TEXT, user("Lids?")]),
    Conversation("two results", [*OPENING, TWO_CALLS, *RESULTS]),
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
    calls = 3 if capabilities.parallel_calls else 1
    count = draw(st.integers(0, calls if capabilities.calls and capabilities.results else 0))
    if not count:
        return Turn("generated", [assistant(draw(texts) + "four"), *(queries or [user(draw(texts))])])
    names = [draw(st.sampled_from(["look", "count"])) for _ in range(count)]
    results = [result(name, at, draw(texts)) for at, name in enumerate(names)]
    if draw(st.booleans()):
        results = [{key: value for key, value in message.items() if key != "name"} for message in results]
    results = draw(st.permutations(results))
    sampled = assistant("", *(call(name, at) for at, name in enumerate(names)))
    return Turn(
        "generated",
        [sampled, *results, *queries],
        declares=capabilities.declarations,
    )


def token_lists(special: Sequence[int], plain: Sequence[int]) -> st.SearchStrategy[list[int]]:
    """Ids as no model should sample them: control ids in any order, ordinary ids, and ids that no vocabulary has."""
    known = [*special, *plain] or [0]
    return st.lists(st.one_of(st.sampled_from(known), st.sampled_from(known), st.integers(-2, 2**31)), max_size=24)
