"""Tries each shape of a conversation once, with a stand-in word for every text, call name, argument and declaration.

What a format leaves out depends on the shape (roles and their order, blank texts, calls, which result answers which) and not on
what the texts say: a known shape costs one look-up. Reasoning isn't asked for: formats drop it from the history on purpose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ...errors import BridgeDeclined
from ...plugin import in_probe, rendering_probes
from ...plugin.discovery import warn_once
from .trial import Dropped, Trial

logger = logging.getLogger("rllm_renderer")

MOST_REPEATS = 3
"""How often a group of messages (a call and its result) comes in a row before further ones are taken to be rendered alike."""
_BARE = ("role", "content")

KNOWN_SHAPES = 4096
"""Shapes remembered a renderer; when there are more, all are learned again."""

Shape = tuple[Any, ...]


class NothingDropped:
    """The check of one renderer; may be called by many threads, which may then learn the same shape twice.

    Args:
        render_ids: The bare renderer's, called under ``lock``.
        decode: Ids to text with control tokens, or ``None`` where the tokenizer has none: then each thing is altered alone.
        name: ``backend:renderer``, for errors.
        lock: Held while rendering and decoding.
        mode: ``"error"`` or ``"warn"``.
    """

    def __init__(
        self, render_ids: Callable[..., Any], decode: Callable[..., str] | None, name: str, lock: Any, mode: str = "error"
    ) -> None:
        self._render_ids, self._decode, self._name, self._lock, self._mode = render_ids, decode, name, lock, mode
        self._known: dict[Shape, tuple[Dropped, ...]] = {}

    def after_render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, opener: bool) -> None:
        """Check messages and tools in normal form, which were rendered without an error.

        Raises:
            MessageError: A message's text, or one of its calls, doesn't show; ``index`` tells which.
            UnsupportedToolsError: A declaration doesn't show.
        """
        if in_probe.get():
            return
        dropped = self.dropped(messages, tools, opener)
        if dropped:
            if self._mode == "error":
                raise dropped[0].error(self._name)
            warn_once(f"dropped='warn': {dropped[0].said(self._name)}", key=("dropped", self._name, str(dropped[0])))

    def after_bridge(self, new: list[dict[str, Any]], tooled: bool, added: Callable[[list[dict[str, Any]]], list[int]]) -> None:
        """Check the new messages of a bridge that was made.

        Args:
            new: In normal form.
            tooled: Whether tools are declared.
            added: What the same bridge adds to prompt and completion for other new messages.

        Raises:
            BridgeDeclined: A text doesn't show: the render of the whole conversation tells whether it can be had at all.
        """
        if in_probe.get():
            return
        shape = ("bridge", shape_of(new), tooled)
        known = self._known.get(shape)
        if known is None:
            known = self._kept(shape, self._tried(new, None, lambda trial: added(trial.messages)))
        if known:
            what = known[0].said(self._name, "new message")
            if self._mode == "error":
                raise BridgeDeclined(what, fix="render the whole conversation again")
            warn_once(f"dropped='warn': {what}", key=("dropped", self._name, "bridge", str(known[0])))

    def dropped(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, opener: bool) -> tuple[Dropped, ...]:
        """All that isn't shown, in the order of the messages, tools first."""
        shape = (shape_of(messages), None if tools is None else declared_shapes(tools), opener)
        known = self._known.get(shape)
        if known is None:
            known = self._learned(messages, tools, opener, shape)
        return known

    def _learned(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, opener: bool, shape: Shape
    ) -> tuple[Dropped, ...]:
        kept = without_repeats(shape[0])
        short = (tuple(shape[0][index] for index in kept), *shape[1:])
        known = self._known.get(short)
        if known is None:
            known = self._tried([messages[index] for index in kept], tools, lambda trial: self._rendered(trial, opener))
        self._kept(short, known)
        if len(kept) < len(messages):
            known = tuple(
                each if each.what == "tool" else Dropped(each.what, kept[each.index], each.role, each.call) for each in known
            )
            self._kept(shape, known)
        return known

    def _kept(self, shape: Shape, known: tuple[Dropped, ...]) -> tuple[Dropped, ...]:
        if len(self._known) >= KNOWN_SHAPES:
            self._known.clear()
        self._known[shape] = known
        return known

    def _tried(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, ids_of: Callable[[Trial], list[int]]
    ) -> tuple[Dropped, ...]:
        with rendering_probes():
            try:
                trial = Trial(messages, tools)
                plain = ids_of(trial)
                if self._decode is not None:
                    shown = self._text(plain)
                    return tuple(
                        thing for word, thing in trial.things.items() if not (word in shown or trial.known_by_id(thing, shown))
                    )
                return tuple(thing for word, thing in trial.things.items() if ids_of(Trial(messages, tools, word)) == plain)
            except Exception as error:
                # The stand-in words are refused where the real texts weren't: nothing can be said of this shape.
                logger.info("%s: what it shows of this shape of conversation can't be told: %r", self._name, error)
                return ()

    def _rendered(self, trial: Trial, opener: bool) -> list[int]:
        with self._lock:
            return list(self._render_ids(trial.messages, tools=trial.tools, add_generation_prompt=opener))

    def _text(self, ids: list[int]) -> str:
        assert self._decode is not None
        with self._lock:
            return self._decode(ids, skip_special_tokens=False).casefold()


def shape_of(messages: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Of each message its role, its keys, whether its text is blank, and what it calls or answers."""
    calls: dict[str, tuple[int, int]] = {}
    out: list[Any] = []
    for index, message in enumerate(messages):
        content, role = message["content"], message["role"]
        if len(message) == 2 and type(content) is str and content and not content.isspace():  # most messages
            out.append((role, _BARE if next(iter(message)) == "role" else tuple(message), True, None, False))
            continue
        blank = content if not content or (isinstance(content, str) and content.isspace()) else True
        own: Any = None
        if "tool_calls" in message:
            own = tuple(_shape_of_call(call, index, at, calls) for at, call in enumerate(message["tool_calls"]))
        elif role == "tool":
            call_id = message.get("tool_call_id")
            answered = calls.get(call_id) if call_id is not None else None
            own = None if answered is None else (index - answered[0], answered[1])
        reasoning = message.get("reasoning_content")
        out.append((role, tuple(message), blank, own, bool(reasoning)))
    return tuple(out)


def _shape_of_call(call: dict[str, Any], index: int, at: int, calls: dict[str, tuple[int, int]]) -> tuple[Any, ...]:
    call_id, function = call.get("id"), call["function"]
    if call_id is not None:
        calls[call_id] = index, at
    return call_id and function["name"] in call_id, function["arguments"] == "{}"


def declared_shapes(tools: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The different shapes among the declarations: how many have one changes nothing."""
    return tuple(dict.fromkeys((tuple(tool), tuple(tool["function"])) for tool in tools))


def without_repeats(shape: tuple[Any, ...]) -> list[int]:
    """Indices of messages without the fourth and later of equal groups in a row, of one to four messages each."""
    kept = list(range(len(shape)))
    for size in (1, 2, 3, 4):
        out: list[int] = []
        for index in kept:
            out.append(index)
            behind = out[-size * (MOST_REPEATS + 1) :]
            if len(behind) == size * (MOST_REPEATS + 1):
                groups = [[shape[at] for at in behind[start : start + size]] for start in range(0, len(behind), size)]
                if all(group == groups[0] for group in groups):
                    del out[-size:]
        kept = out
    return kept
