"""Conversations to training sequences: each assistant turn behind the very prompt that it will be sampled from.

A chat template renders history differently from what is being said: reasoning of earlier turns is stripped, an empty
``<think>`` block comes and goes, and openers supply what looks as if it were sampled. So the rendering of a whole conversation
isn't what a model sees when it speaks. Here the prompt of each turn is rendered as serving renders it, and a turn joins the
sequence before it only where its prompt starts with that sequence, id for id.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rllm_renderer_core.errors import BridgeDeclined, OptionError
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.normal_form.messages import has_media, normalize_messages
from rllm_renderer_core.normal_form.tools import normalize_tools

from ..errors import UnreachableTurnError
from .example import SkippedTurn, SupervisedExample, SupervisedExamples
from .parts import PARTS, part_weights
from .runs import Runs
from .targets import Messages, Target, Targets
from .weights import split_weights, trained

TRAIN, HISTORIES, UNREACHABLE = ("all", "last", "last_turn"), ("template", "verbatim"), ("error", "skip")

_OPENER_IDS = 12
"""How many ids a bridged prompt must end with alike to the rendered one: openers are shorter."""


def supervised(
    renderer: Any,
    messages: Iterable[Any],
    *,
    tools: Iterable[Any] | None = None,
    train: str = "all",
    history: str = "template",
    parts: Iterable[str] | None = None,
    unreachable: str = "error",
) -> SupervisedExamples:
    """The training sequences of one conversation: as few as can be, each trained id in exactly one.

    Args:
        renderer: What ``resolve`` returned.
        messages: The conversation. An assistant message may have its own ``weight``, ``trainable`` or ``loss_mask`` (a
            boolean, or a number from 0 on): it multiplies the loss, and 0 leaves the turn to the context.
        tools: Declared for the whole conversation.
        train: ``"all"`` assistant messages, the ``"last"`` one, or those of the ``"last_turn"``, behind the last user message.
        history: ``"template"``: each turn behind the prompt that serving renders anew. ``"verbatim"``: behind what a rollout
            keeps that is bridged from turn to turn (cumulative tokens), as RL then samples it.
        parts: Train only these of a turn: ``"reasoning"``, ``"content"``, ``"tool_calls"``. ``None``: all of it.
        unreachable: What becomes of a turn that can't be sampled from its own prompt: ``"error"`` raises, ``"skip"`` leaves it
            out and lists it in the result's ``skipped``.

    Returns:
        A list of ``SupervisedExample``; empty where nothing is to be trained.

    Raises:
        UnreachableTurnError: A turn that the model can't say behind its prompt, with its index and both texts.
        MessageError, ToolError: The input can't be used.
        OptionError: An option that isn't known, or parts that the format doesn't keep apart.
    """
    wanted = _checked_parts(parts)
    choices = {"train": (train, TRAIN), "history": (history, HISTORIES), "unreachable": (unreachable, UNREACHABLE)}
    for option, (value, known) in choices.items():
        if value not in known:
            fix = f"use one of {', '.join(map(repr, known))}{', or weights on messages' if option == 'train' else ''}"
            raise OptionError(f"{option}={value!r} isn't known", fix=fix, option=option)
    bare, weights = split_weights(messages)
    ready = normalize_messages(bare)
    declared = normalize_tools(tools)
    chosen = trained(ready, weights, train)
    builder = _Builder(runs_of(renderer), ready, declared, chosen, wanted, unreachable == "skip")
    if not chosen:
        return builder.examples
    if history == "verbatim":
        _verbatim(builder, renderer)
    else:
        for _, target in builder.targets(list(chosen)):
            if target is not None:
                builder.add(target)
    return builder.done()


def runs_of(renderer: Any) -> Runs:
    """What is known about this renderer's turns: learned once, for all its conversations."""
    if renderer not in _known:
        _known[renderer] = Runs(Targets(renderer))
    return _known[renderer]


_known: weakref.WeakKeyDictionary[Any, Runs] = weakref.WeakKeyDictionary()


@dataclass
class _Builder:
    """The sequences of one conversation, as far as they are built; the last one is open."""

    runs: Runs
    messages: Messages
    tools: Sequence[Any] | None
    weights: dict[int, float]
    parts: frozenset[str] | None
    skip: bool
    examples: SupervisedExamples = field(default_factory=SupervisedExamples)

    def targets(self, indices: Sequence[int]) -> Iterator[tuple[int, Target | None]]:
        """The targets of these assistant messages, ``None`` where one can't be reached and was noted as skipped."""
        for target in self.runs.targets_of(self.messages, indices, self.tools):
            yield (target, self._target(target)) if isinstance(target, int) else (target.index, target)

    def _target(self, index: int) -> Target | None:
        try:
            return self.runs.targets.target(self.messages, index, self.tools)
        except UnreachableTurnError as error:
            if index in self.weights:
                if not self.skip:
                    raise
                self.examples.skipped.append(SkippedTurn(index, str(error).splitlines()[0]))
            return None

    def add(self, target: Target) -> None:
        """The target behind its rendered prompt: in the open sequence where the prompt starts with it, else in a new one."""
        known = len(self.examples[-1].token_ids) if self.examples else 0
        if not self.examples:
            self.begin(target, "the first trained turn")
        elif not target.continues and (known > target.start or target.ids[:known] != self.examples[-1].token_ids):
            self.begin(target, self._difference(target))
        else:
            indices = None if target.indices is None else target.indices[known : target.start]
            self.extend(target, target.ids[known : target.start], indices)

    def begin(self, target: Target, reason: str) -> None:
        self.examples.append(SupervisedExample([], [], [], [], reason))
        prompt = target.prompt
        self.extend(target, prompt.token_ids, prompt.message_indices)

    def extend(self, target: Target, more: Sequence[int], indices: Sequence[int | None] | None = None) -> None:
        """The open sequence with ``more`` of the prompt, and the completion."""
        example, completion, index = self.examples[-1], target.completion, target.index
        weight = self.weights.get(index, 0.0)
        own = [weight] * len(completion)
        if weight and self.parts is not None:
            kept = part_weights(self.runs.targets, self.messages, target, self.tools, self.parts)
            own = [weight if keep else 0.0 for keep in kept]
        example.token_ids += [*more, *completion]
        example.weights += [0.0] * len(more) + own
        example.message_indices += [*([None] * len(more) if indices is None else indices), *[index] * len(completion)]
        if any(own):
            example.trained.append(index)
        if any(has_media(message) for message in self.messages[:index]):
            example.multi_modal_data = target.media

    def _difference(self, target: Target) -> str:
        """Why the target's prompt doesn't start with the open sequence, in one line."""
        before, prompt = self.examples[-1].token_ids, target.ids[: target.start]
        at = common_prefix(before, prompt)
        theirs, mine = (self.runs.targets.decode(ids[at : at + 12]) for ids in (before, prompt))
        return (
            f"the prompt of message {target.index} renders what came before it anew: {mine!r} at id {at}, "
            f"where the sequence has {theirs!r}"
        )

    def done(self) -> SupervisedExamples:
        """The sequences, each up to its last trained id; without those that train nothing."""
        for example in self.examples:
            size = max((at + 1 for at, weight in enumerate(example.weights) if weight), default=0)
            for values in (example.token_ids, example.weights, example.message_indices):
                del values[size:]
        self.examples[:] = [example for example in self.examples if example.token_ids]
        return self.examples


def _verbatim(builder: _Builder, renderer: Any) -> None:
    """All assistant turns as a rollout would have sampled them, bridged from one to the next where bridges allow."""
    messages = builder.messages
    spoken = [at for at in range(max(builder.weights) + 1) if messages[at]["role"] == "assistant"]
    before: int | None = None
    prompt: list[int] = []
    completion: list[int] = []
    for index, target in builder.targets(spoken):
        if target is None:
            before = None
            continue
        reason = "the first turn" if not builder.examples else "the turn before it isn't a turn of this renderer"
        rendered = target.prompt.token_ids
        bridged: list[int] | None = None
        if before is not None:
            new = messages[before + 1 : index]
            tried = renderer.try_bridge(prompt, completion, new, tools=builder.tools, previous_message=messages[before])
            if isinstance(tried, BridgeDeclined):
                reason = tried.reason
            else:
                size = min(len(tried.token_ids) - len(prompt) - len(completion), _OPENER_IDS, len(rendered))
                if tried.token_ids[len(tried.token_ids) - size :] == rendered[len(rendered) - size :]:
                    bridged = tried.token_ids  # only then the completion is what is sampled behind it
                reason = "the bridge ends with another opener than the rendered prompt"
        if bridged is None:
            builder.begin(target, reason)
            prompt = rendered
        else:
            builder.extend(target, bridged[len(prompt) + len(completion) :])
            prompt = bridged
        before, completion = index, target.completion


def _checked_parts(parts: Iterable[str] | None) -> frozenset[str] | None:
    if parts is None:
        return None
    wanted = frozenset([parts] if isinstance(parts, str) else parts)
    if not wanted or not wanted <= set(PARTS):
        raise OptionError(
            f"parts={sorted(wanted)} isn't a choice of {', '.join(PARTS)}", fix="name one or two of them", option="parts"
        )
    return None if wanted == set(PARTS) else wanted
