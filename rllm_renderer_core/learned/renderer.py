"""The built-in backend of last resort: the tokenizer's own chat template, with the seam over it where the user asks.

A template of unknown make proves nothing about bridges, so each is declined by default; ``template_bridge=True`` has the seam
prove them call by call.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..errors import BridgeDeclined, OptionError, RenderError
from ..contract.messages import refuse_media
from ..plugin import Backend, Coverage, Match, Query, Unavailable
from .seam import SeamBridge
from ..types import Message, ParsedResponse, RenderedTokens, Termination
from ..vocabulary import chat_template, control_ids, eos_ids, reasoning_ids

NAME = "chat-template"
NO_BRIDGE = "a chat template of unknown make proves no bridge"
BRIDGE_FIX = "template_bridge=True has each bridge proven by experiment"
THINKING_VARIABLES = ("enable_thinking", "thinking")


class ChatTemplateBackend(Backend):
    """Covers any tokenizer with a chat template, below everything else."""

    name = NAME
    priority = 0
    options = frozenset({"thinking", "chat_template_kwargs", "template_bridge"})

    def covers(self, query: Query) -> Coverage | Unavailable | None:
        if query.renderer not in (None, NAME):
            return None
        if query.tokenizer is not None and chat_template(query.tokenizer) is None:
            return Unavailable("the tokenizer has no chat template", "install a plugin that renders this model natively")
        reason = "the tokenizer's chat template" if query.tokenizer is not None else "if its tokenizer has a chat template"
        bridge = "bridges proven by experiment" if query.template_bridge else f"no bridge ({BRIDGE_FIX})"
        match = Match.FALLBACK if query.renderer is None else Match.NAMED
        return Coverage(NAME, match, query.template_bridge, f"{reason}; {bridge}")

    def create(self, query: Query, coverage: Coverage) -> ChatTemplateRenderer:
        return ChatTemplateRenderer(query.tokenizer, _template_variables(query), bridge=coverage.has_bridge)

    def renderer_names(self) -> Sequence[str]:
        return (NAME,)


def _template_variables(query: Query) -> dict[str, Any]:
    """The options as variables of this template, which must know each of them: Jinja ignores what it doesn't know."""
    kwargs = dict(query.chat_template_kwargs)
    if query.thinking is None and not kwargs:
        return kwargs
    from jinja2 import Environment, meta

    source = chat_template(query.tokenizer) or ""
    environment = Environment(extensions=["jinja2.ext.loopcontrols"])
    known = meta.find_undeclared_variables(environment.parse(_without_generation_tags(source)))
    for key in kwargs:
        if key not in known:
            raise OptionError(
                f"chat_template_kwargs: the chat template has no variable {key!r}, backend {NAME} can't honour it",
                fix=f"its variables are {', '.join(sorted(known)) or 'none'}",
                option="chat_template_kwargs",
                backend=NAME,
            )
    if query.thinking is not None:
        variable = next((name for name in THINKING_VARIABLES if name in known), None)
        if variable is None:
            raise OptionError(
                f"thinking={query.thinking}: the chat template has no variable for it, backend {NAME} can't honour it",
                fix="leave thinking out, or pass the template's own variable in chat_template_kwargs",
                option="thinking",
                backend=NAME,
            )
        kwargs[variable] = query.thinking
    return kwargs


def _without_generation_tags(source: str) -> str:
    """The template without transformers' ``generation`` blocks, which plain Jinja can't parse."""
    for tag in ("generation", "endgeneration"):
        for left in ("{%", "{%-"):
            for right in ("%}", "-%}"):
                source = source.replace(f"{left} {tag} {right}", "")
    return source


class ChatTemplateRenderer:
    """A tokenizer's ``apply_chat_template`` behind the protocol.

    Attribution is ``None``: a template doesn't tell which message a token belongs to. Parsing knows the reasoning markers
    and the stops alone; what the model writes as tool calls stays in the content.
    """

    wants_result_names = False  # a template gets the messages that serving would pass to it

    def __init__(self, tokenizer: Any, variables: dict[str, Any], *, bridge: bool) -> None:
        self._tokenizer = tokenizer
        self._variables = variables
        self._bridge = bridge
        self.reasoning_ids = reasoning_ids(tokenizer)

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        return RenderedTokens(self.render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt))

    def render_ids(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        refuse_media(messages, NAME)
        ids = self._apply(self._call_form.fit(messages), tools, add_generation_prompt, tokenize=True)
        return list(ids)

    def parse_response(
        self, token_ids: Sequence[int], *, tools: Sequence[Any] | None = None, prompt_ids: Sequence[int] | None = None
    ) -> ParsedResponse:
        ids = list(token_ids)
        stops = set(self.get_stop_token_ids())
        at = next((index for index, token in enumerate(ids) if token in stops), None)
        body = ids if at is None else ids[:at]
        reasoning, content, complete = self._split_reasoning(body, list(prompt_ids or ()))
        if at is None:
            termination = Termination.TRUNCATED
        else:
            termination = Termination.STOP if complete and at == len(ids) - 1 else Termination.MALFORMED
        return ParsedResponse(content, reasoning, [], termination, complete)

    def get_stop_token_ids(self) -> list[int]:
        return list(self._stop_ids)

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        previous_message: Message | None = None,
    ) -> RenderedTokens | None:
        if not self._bridge:
            raise BridgeDeclined(NO_BRIDGE, fix=BRIDGE_FIX)
        return self._seam.bridge_to_next_turn(
            previous_prompt_ids,
            previous_completion_ids,
            new_messages,
            tools=tools,
            previous_message=previous_message,
        )

    @cached_property
    def _stop_ids(self) -> list[int]:
        return self._seam_over(eos_ids(self._tokenizer)).turn_ends()

    @cached_property
    def _seam(self) -> SeamBridge:
        return self._seam_over(self._stop_ids)

    def _seam_over(self, stop_ids: Sequence[int]) -> SeamBridge:
        return SeamBridge(
            lambda messages, tools: self.render_ids(messages, tools=tools, add_generation_prompt=True),
            stop_ids,
            control_ids(self._tokenizer),
            named_results=False,
        )

    @cached_property
    def _call_form(self) -> _CallForm:
        return _CallForm.learn(lambda messages: str(self._apply(messages, None, False, tokenize=False)))

    def _apply(self, messages: Sequence[Message], tools: Sequence[Any] | None, opener: bool, *, tokenize: bool) -> Any:
        return self._tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=None if tools is None else list(tools),
            add_generation_prompt=opener,
            tokenize=tokenize,
            **({"return_dict": False} if tokenize else {}),
            **self._variables,
        )

    def _split_reasoning(self, body: list[int], prompt: list[int]) -> tuple[str | None, str, bool]:
        if not self.reasoning_ids:
            return None, self._decode(body), True
        opening, closing = self.reasoning_ids
        opened = next((token == opening for token in reversed(prompt) if token in (opening, closing)), False)
        start = 0
        if not opened and opening in body:
            start = body.index(opening) + 1
            opened = not self._decode(body[: start - 1]).strip()
        if closing in body[start:] and (opened or not prompt):
            end = body.index(closing, start)
            return self._decode(body[start:end]).strip("\n") or None, self._decode(body[end + 1 :]).lstrip("\n"), True
        if opened:
            return self._decode(body[start:]).strip("\n") or None, "", False
        return None, self._decode(body), True

    def _decode(self, ids: list[int]) -> str:
        try:
            return str(self._tokenizer.decode(ids, skip_special_tokens=False)) if ids else ""
        except Exception:  # ids outside the vocabulary: the overflow has no text
            return ""


class _CallForm:
    """How this template wants an assistant's calls: learned by rendering one, never assumed.

    Arguments go as text only where the template prints them as they are and would print a mapping as the same JSON;
    content beside calls goes as ``""`` or ``None``, whichever shows the call and doesn't print "None".
    """

    _NAME = "look_zq"
    _VALUE = "zq9"

    def __init__(self, *, as_text: bool, empty: str | None, beside_text: bool, why_not: str | None) -> None:
        self.as_text = as_text
        self.empty = empty
        self.beside_text = beside_text
        self.why_not = why_not

    @classmethod
    def learn(cls, text_of: Any) -> _CallForm:
        why = "the chat template shows no tool calls"
        for empty in ("", None):
            shown = {}
            for spacing in ("text", "compact", "mapping"):
                try:
                    shown[spacing] = text_of(cls._probe(spacing, empty))
                except Exception as error:
                    why = f"the chat template refuses tool calls: {type(error).__name__}: {error}"
            shown = {key: value for key, value in shown.items() if cls._NAME in value and "None" not in value}
            raw = json.dumps({"q": cls._VALUE}, separators=(",", ":"))
            as_text = "compact" in shown and raw in shown["compact"]
            if "mapping" in shown and as_text:
                as_text = shown["mapping"] in (shown.get("text"), shown["compact"])
            if not as_text and "mapping" not in shown:
                continue
            form = cls(as_text=as_text, empty=empty, beside_text=True, why_not=None)
            try:
                beside = text_of(form.fit([{**cls._probe("text", "")[0]}, {**cls._probe("text", "")[1], "content": "pong"}]))
            except Exception:
                beside = ""
            form.beside_text = cls._NAME in beside and "pong" in beside
            return form
        return cls(as_text=False, empty="", beside_text=False, why_not=why)

    @classmethod
    def _probe(cls, spacing: str, empty: str | None) -> list[dict[str, Any]]:
        value = {"q": cls._VALUE}
        arguments: Any = value
        if spacing != "mapping":
            arguments = json.dumps(value) if spacing == "text" else json.dumps(value, separators=(",", ":"))
        # Kimi's templates show the id alone, which has the name in it.
        call = {"id": f"functions.{cls._NAME}:0", "type": "function", "function": {"name": cls._NAME, "arguments": arguments}}
        return [{"role": "user", "content": "ping"}, {"role": "assistant", "content": empty, "tool_calls": [call]}]

    def fit(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with their calls in this form.

        Raises:
            RenderError: The template can't show the calls; dropping them would render another conversation.
        """
        return [self._fit(index, m) if m.get("tool_calls") else m for index, m in enumerate(messages)]

    def _fit(self, index: int, message: Message) -> Message:
        if self.why_not is not None:
            raise RenderError(f"message {index} has tool calls, and {self.why_not}")
        content: Any = message["content"]
        if not content:
            content = self.empty
        elif not self.beside_text:
            raise RenderError(f"message {index} has text beside tool calls, and the chat template shows only one of them")
        calls = message["tool_calls"]
        if not self.as_text:
            calls = [
                {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
                for call in calls
            ]
        return {**message, "content": content, "tool_calls": calls}
