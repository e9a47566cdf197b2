"""The renderer protocol and its value types. Everything here is plain data: picklable, and JSON where it says so."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

Message = Mapping[str, Any]
"""A chat message in OpenAI's form: ``role``, ``content``, and where they apply ``reasoning_content``, ``tool_calls``,
``tool_call_id``, ``name``."""


@dataclass
class RenderedTokens:
    """Token ids with their attribution.

    Attributes:
        token_ids: The prompt, as ids of the model's vocabulary.
        message_indices: Same length as ``token_ids``; the index of the message that a token belongs to (in a bridge: of
            ``new_messages``), -1 for scaffolding that belongs to none. ``None`` where the backend can't tell: for the whole
            list, or for single entries, as over the prompt and completion of a bridge.
        sampled_mask: Same length; ``True`` where the model would have sampled the token. ``None`` as above.
        multi_modal_data: What the engine needs besides ids when messages carry media; the backend's own object.
    """

    token_ids: list[int]
    message_indices: list[int | None] | None = None
    sampled_mask: list[bool | None] | None = None
    multi_modal_data: Any = None


class Termination(str, Enum):
    """How a completion ended."""

    STOP = "stop"
    """A stop token or stop string was sampled, once, at the end."""
    TRUNCATED = "truncated"
    """No stop was sampled: the completion was cut off, in text, in reasoning or in a tool call."""
    MALFORMED = "malformed"
    """The format was broken: a stop inside reasoning, ids after the stop, a structure that doesn't parse."""

    __str__ = str.__str__


class ToolCallStatus(str, Enum):
    """What became of one attempt at a tool call. Only ``OK`` calls are safe to run."""

    OK = "ok"
    INVALID_JSON = "invalid_json"
    INVALID_ARGUMENT = "invalid_argument"
    """The call parsed, but an argument isn't of the type that the tool declares; it is kept as text."""
    UNCLOSED_BLOCK = "unclosed_block"
    MISSING_NAME = "missing_name"
    MALFORMED_STRUCTURE = "malformed_structure"
    UNKNOWN_TOOL = "unknown_tool"

    __str__ = str.__str__


class ToolCall(dict[str, Any]):
    """One tool call: a dict in OpenAI's nested shape, with attributes for the same facts.

    As a dict it is ``{"id", "type": "function", "function": {"name", "arguments": <JSON text>}}``, so it goes back into a
    message and through ``json`` as it is. Attributes ``name``, ``id``, ``arguments`` (a mapping where the text parses to one,
    else the text), ``raw`` (the text that the model wrote) and ``status`` are for readers in code.

    Args:
        name: The function's name; may be empty only where ``status`` isn't OK.
        arguments: A mapping, or JSON text, which is kept byte for byte.
        id: The call's id, ``None`` where the format has none.
        raw: The decoded text of the attempt.
        status: ``OK`` becomes ``MISSING_NAME`` where the name is empty.
    """

    def __init__(
        self,
        name: str | None,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        id: str | None = None,
        raw: str = "",
        status: ToolCallStatus = ToolCallStatus.OK,
    ) -> None:
        given = {} if arguments is None else arguments
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        super().__init__(id=id, type="function", function={"name": name or "", "arguments": text})
        self.raw = raw
        self.status = ToolCallStatus.MISSING_NAME if status is ToolCallStatus.OK and not name else status

    @property
    def name(self) -> str:
        return str(self["function"]["name"])

    @property
    def id(self) -> str | None:
        value = self["id"]
        return None if value is None else str(value)

    @property
    def arguments(self) -> dict[str, Any] | str:
        text = str(self["function"]["arguments"])
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # the model may write any number of brackets
            return text
        return value if isinstance(value, dict) else text

    @property
    def sound(self) -> bool:
        """Whether it is a call at all: one that is OK, or OK but for its tool, which isn't declared."""
        return self.status in (ToolCallStatus.OK, ToolCallStatus.UNKNOWN_TOOL)


@dataclass(frozen=True)
class ToolSpec:
    """A tool declaration, for those who don't write OpenAI's dict by hand.

    Args:
        name: The function's name.
        description: Shown to the model; left out of the declaration where ``None``.
        parameters: JSON schema of the arguments; left out where ``None``.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """OpenAI's wrapper: ``{"type": "function", "function": {...}}``."""
        optional = {"description": self.description, "parameters": self.parameters}
        given = {key: value for key, value in optional.items() if value is not None}
        return {"type": "function", "function": {"name": self.name, **given}}


@dataclass
class ParsedResponse:
    """A completion, parsed.

    Attributes:
        content: Visible text, without reasoning, calls and stops.
        reasoning_content: Reasoning text, ``None`` where there is none.
        tool_calls: Every attempt in order, the broken ones too (see ``ToolCall.status``).
        termination: How the completion ended.
        reasoning_complete: ``False`` where the completion ends inside reasoning.
        lossless: Whether every sampled id is accounted for: reasoning, content, calls, the format's frame and stops, in order.
        loss: Why it isn't, where it isn't.
    """

    content: str = ""
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    termination: Termination = Termination.STOP
    reasoning_complete: bool = True
    lossless: bool = True
    loss: str | None = None

    @property
    def runnable(self) -> list[ToolCall]:
        """The calls that are safe to run: those whose status is OK."""
        return [call for call in self.tool_calls if call.status is ToolCallStatus.OK]

    def to_message(self) -> dict[str, Any]:
        """The assistant message for the history. Broken calls go back as the text that the model wrote.

        A call to a tool that isn't declared is a call like any other: its result follows it.
        """
        broken = "".join(call.raw for call in self.tool_calls if not call.sound)
        message: dict[str, Any] = {"role": "assistant", "content": self.content + broken}
        if self.reasoning_content is not None:
            message["reasoning_content"] = self.reasoning_content
        calls = [call for call in self.tool_calls if call.sound]
        if calls:
            message["tool_calls"] = copy.deepcopy(calls)
        return message


@runtime_checkable
class Renderer(Protocol):
    """What a backend creates, and what ``resolve`` returns: messages to ids, ids back, and the bridge between turns.

    Messages and tools reach a backend in the normal form of ``rllm_renderer_core.normal_form.messages``. All ids are of the
    model's vocabulary; nothing here takes or returns text where it could take ids.

    What else a backend may say of its renderer is in ``RendererTraits``.
    """

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Render a conversation. With ``add_generation_prompt`` it ends with the opener of the next assistant turn."""

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """``render(...).token_ids``, without the cost of attribution."""

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        """Parse sampled ids. Never raises, on any list. ``prompt_ids`` tells whether the prompt opened the reasoning."""

    def get_stop_token_ids(self) -> list[int]:
        """The ids at which an engine must stop sampling."""

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | None:
        """Prompt and completion, id for id, then ``new_messages`` and the next opener; or ``None``: render everything again.

        Args:
            previous_prompt_ids: The ids that the completion was sampled from.
            previous_completion_ids: The sampled ids with their stop, if one was sampled.
            new_messages: What came since; no assistant message.
            tools: As for ``render``.
            previous_message: The assistant message that C was parsed to, with its calls and their ids, where it is known.
        """
