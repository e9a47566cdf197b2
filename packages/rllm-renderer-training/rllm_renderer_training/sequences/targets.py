"""The target of an assistant message: the prompt that serving renders before it, and what the model samples there.

Everything is rendered by the renderer itself, as it would be served: the prompt with the opener, and the conversation that ends
with the message. Where the one is a prefix of the other, the rest is what the model samples, up to its stop. Where the opener's
last characters merge with the message's first into other ids (``<think>\\n`` and ``\\n</think>``), the text decides: the model
samples behind the prompt's ids, so what is left of the text is tokenised there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.errors import RendererError, ToolError, UnsupportedContentError
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.normal_form.tokenizer import control_ids, decoder_of
from rllm_renderer_core.probing.calls import ANSWER, NAME, OTHER_ARGUMENTS, QUESTION, REASONING, call_ids, tool_call
from rllm_renderer_core.types import RenderedTokens

from ..errors import UnreachableTurnError
from .omitted_parts import doubtful, shows

Messages = Sequence[dict[str, Any]]
_CALLS = [tool_call(call_id=call_ids()[1]), tool_call(call_id=call_ids()[1], arguments=OTHER_ARGUMENTS)]
_RESULT = {"role": "tool", "content": "pong", "tool_call_id": call_ids()[1], "name": NAME}
_SHOWN = 60
"""How many characters of a prompt or a turn an error shows."""


@dataclass(frozen=True)
class Target:
    """One assistant message as it is trained: what it is sampled from, and behind that what is sampled.

    ``ids`` begin with the prompt that serving renders for the messages before it, with the opener; from ``start`` to ``end``
    they are what the model samples, the stop last. Several targets may share them.
    """

    index: int  # of the message
    ids: list[int]
    start: int
    end: int
    indices: list[int | None] | None = None  # for each id of the prompt the index of its message, where the backend can tell
    media: Any = None  # the backend's own object for the prompt's media
    continues: bool = False  # the ids start with the prompt and completion of the target that was given before it

    @property
    def prompt(self) -> RenderedTokens:
        """The prompt. A copy."""
        indices = None if self.indices is None else self.indices[: self.start]
        return RenderedTokens(self.ids[: self.start], indices, multi_modal_data=self.media)

    @property
    def completion(self) -> list[int]:
        """What is sampled. A copy."""
        return self.ids[self.start : self.end]


class Targets:
    """Targets of one renderer, which ``resolve`` returned. What it learns about the renderer serves all conversations."""

    def __init__(self, renderer: Any) -> None:
        self._renderer, self.tokenizer = renderer, renderer.tokenizer
        self.decode = decoder_of(self.tokenizer) if callable(getattr(self.tokenizer, "decode", None)) else lambda ids: ""
        self._stops = frozenset(renderer.get_stop_token_ids())
        self.control = control_ids(self.tokenizer) | self._stops
        # The template tells nothing about attribution but by further renders, which a whole data set would pay for.
        self._attributes = not renderer.by_template
        self.unwritten_stop = functools.cache(functools.partial(unwritten_stop, renderer))

    def target(self, messages: Messages, index: int, tools: Sequence[Any] | None) -> Target:
        """The target of ``messages[index]``; an ``UnreachableTurnError`` where the model can't say it behind its prompt."""
        prompt = self.prompt(messages, index, tools)
        finished = self.finished(messages, index, tools)
        behind = self._behind(prompt.token_ids, finished, index)
        completion = self.stopped(behind, messages[index], index, prompt.token_ids)
        self._refuse_dropped(messages, index, tools, finished, completion)
        ids = [*prompt.token_ids, *completion]
        return Target(index, ids, len(ids) - len(completion), len(ids), prompt.message_indices, prompt.multi_modal_data)

    def finished(self, messages: Messages, index: int, tools: Sequence[Any] | None) -> list[int]:
        """The ids of the conversation that ends with ``messages[index]``."""
        with _refusals(index, "the conversation up to it"):
            return list(self._renderer.render_ids(messages[: index + 1], tools=tools))

    def prompt(self, messages: Messages, index: int, tools: Sequence[Any] | None) -> RenderedTokens:
        """What serving renders for the messages before ``messages[index]``, with the generation prompt."""
        if not index:
            raise UnreachableTurnError(
                f"message {index} (assistant) is the first one: there is no prompt to sample it from",
                fix="begin with a user message, or give it the weight 0",
                index=index,
            )
        with _refusals(index, "its prompt"):
            return self.rendered(messages[:index], tools, opener=True)

    def rendered(self, messages: Messages, tools: Sequence[Any] | None, *, opener: bool = False) -> RenderedTokens:
        """The messages as rendered, attributed where that costs no further renders."""
        if self._attributes:
            return self._renderer.render(messages, tools=tools, add_generation_prompt=opener)  # type: ignore[no-any-return]
        return RenderedTokens(list(self._renderer.render_ids(messages, tools=tools, add_generation_prompt=opener)))

    # From the prompt to what is sampled behind it

    def _behind(self, prompt: list[int], finished: list[int], index: int) -> list[int]:
        """What the finished conversation has behind the prompt: the ids themselves, or its text tokenised behind the prompt."""
        if finished[: len(prompt)] == prompt:
            return finished[len(prompt) :]
        at = common_prefix(prompt, finished)
        wanted, rest = self.decode(prompt[at:]), finished[at:]
        # Tokenised again is only the text up to the next control token: from there on the ids are the message's own.
        ends = [place for place, token in enumerate(rest) if token in self.control and place] + [len(rest)]
        end = next((end for end in ends if len(self.decode(rest[:end])) >= len(wanted)), None)
        text = self.decode(rest[:end])
        if end is not None and text.startswith(wanted):
            more = text[len(wanted) :]
            again = self._encode(more)
            spelled = any(token in self.control and self.decode([token]).strip() for token in again)
            if self.decode(again) == more and not spelled:
                return again + rest[end:]
        raise UnreachableTurnError(
            f"message {index} (assistant) doesn't go on from its own prompt: the prompt ends with "
            f"{self.decode(prompt[-16:])!r}, and what the format writes for the message is "
            f"{self.decode(finished[max(at - 4, 0) :])[:_SHOWN]!r}",
            fix="take the thinking mode that the data was sampled in, change the message, or pass unreachable='skip'",
            index=index,
            prompt_text=self.decode(prompt[at:]),
            turn_text=self.decode(rest),
        )

    def stopped(self, behind: list[int], message: dict[str, Any], index: int, prompt: list[int]) -> list[int]:
        """The turn up to its stop: as rendered, or as learned where the format writes none."""
        stops = [at for at, token in enumerate(behind) if token in self._stops]
        if not stops:
            stop = self.unwritten_stop(bool(message.get("tool_calls")))
            if stop is not None:
                return [*behind, stop]
            why = "has no stop that the renderer knows, and none shows when the conversation goes on"
        elif len(stops) > 1:
            why = "has more than one stop, and the model would end at the first"
        elif self.decode(behind[stops[0] + 1 :]).strip():
            why = "goes on behind its stop"
        else:  # some vocabularies have newlines among their added tokens
            return behind[: stops[0] + 1]
        raise UnreachableTurnError(
            f"message {index} (assistant) {why}: {self.decode(behind)[-_SHOWN:]!r}",
            fix="take out what spells a control token, or pass unreachable='skip'",
            index=index,
            prompt_text=self.decode(prompt[-16:]),
            turn_text=self.decode(behind),
        )

    def shown(self, message: dict[str, Any], completion: list[int]) -> bool:
        """Whether all of the message can be read in its completion; a text alone, which renderers look for, is taken to be."""
        plain = not message.get("reasoning_content") and not message.get("tool_calls")
        return plain or shows(message, self.decode(completion))

    def _refuse_dropped(
        self, messages: Messages, index: int, tools: Sequence[Any] | None, finished: list[int], completion: list[int]
    ) -> None:
        """Raises where the format writes the message without its reasoning, its text, one of its calls or what else it says."""
        message = messages[index]
        for part in () if message.keys() <= {"role", "content"} else doubtful(message, self.decode(completion)):
            if self.finished([*messages[:index], part.changed], index, tools) == finished:
                what = f"its {part.name}"
                fix = part.fix or f"take {what} out of the message, choose a renderer or mode that shows it"
                raise UnreachableTurnError(
                    f"message {index} (assistant): the format leaves out {what}; training the rest would teach to leave it out",
                    fix=f"{fix}, or pass unreachable='skip'",
                    index=index,
                    prompt_text="",
                    turn_text=self.decode(completion),
                )

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False)) if text and self.tokenizer is not None else []


@contextmanager
def _refusals(index: int, what: str) -> Iterator[None]:
    """A render that the renderer refuses is a turn that can't be reached, unless the input can't be used at all."""
    try:
        yield
    except (UnsupportedContentError, ToolError):
        raise
    except RendererError as error:
        raise UnreachableTurnError(
            f"message {index} (assistant): the renderer refuses {what}: {str(error).splitlines()[0]}",
            fix=error.fix or "change the messages before it, or pass unreachable='skip'",
            index=index,
        ) from error


def unwritten_stop(renderer: Any, calls: bool) -> int | None:
    """The stop of a turn that is rendered without one, with or without calls; ``None`` where nothing shows it.

    Most formats write the stop behind the turn. GLM writes none: the next role's tag is what the model samples. DeepSeek-V3's
    template forgets it behind a single call. Both show when the conversation goes on.
    """
    stops = renderer.get_stop_token_ids()
    finished, going_on = _behind(renderer, calls), _behind(renderer, calls, _RESULT if calls else QUESTION)
    if finished is None or going_on is None or going_on[: len(finished)] != finished:
        return None
    behind = going_on[len(finished) :]
    if behind and behind[0] in stops:
        return behind[0]
    if calls:  # forgotten behind a call, where results follow it just as they follow a text and its stop
        text, going_on = _behind(renderer, False), _behind(renderer, False, _RESULT)
        return text[0] if text and text[0] in stops and going_on == text + behind else None
    return None


def _behind(renderer: Any, calls: bool, *new: dict[str, Any]) -> list[int] | None:
    """The ids behind what the turn says (its text, or its call's argument), whatever that is; ``None``: it is refused."""
    said = (
        [{"content": "", "tool_calls": [call]} for call in _CALLS] if calls else [{"content": ANSWER}, {"content": REASONING}]
    )
    ends = []
    for turn in said:
        try:
            ends.append(renderer.render_ids([QUESTION, {"role": "assistant", **turn}, *new], add_generation_prompt=bool(new)))
        except RendererError:
            return None
    same = common_prefix(reversed(ends[0]), reversed(ends[1]))
    return list(ends[0][len(ends[0]) - same :])
