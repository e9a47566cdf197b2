"""Tokens as a page of HTML, complete in one file: blocks by message, ids on hover, sampled ids coloured by log-probability.

No font, script or style is loaded from anywhere. The token under the pointer, or the one that the arrow keys are on, is told in
a line at the bottom, which a screen reader reads out.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.types import RenderedTokens
from rllm_renderer_training.rollout.segment import Segment

from .style import SCRIPT, STYLE

if TYPE_CHECKING:
    from rllm_renderer_core.renderer.resolved import ResolvedRenderer
    from rllm_renderer_training.rollout.state import RolloutState

BOUNDS = (-0.1, -0.7, -2.3, -4.6)
"""Log-probabilities between the five colours: about 0.9, 0.5, 0.1 and 0.01."""


@dataclass
class Token:
    """One id as it is shown."""

    id: int
    text: str
    sampled: bool | None = False
    logprob: float | None = None
    version: int | None = None
    restored: bool = False
    forced: bool = False


@dataclass
class Block:
    """A run of ids that belong together: of one message, of the frame around it, of one sampled turn."""

    title: str
    kind: str
    tokens: list[Token] = field(default_factory=list)


@dataclass
class Section:
    """A segment; ``notice`` says why it was started, ``on_purpose`` whether that was asked for."""

    title: str
    blocks: list[Block]
    notice: str = ""
    on_purpose: bool = False


def rollout_page(rollout: RolloutState) -> str:
    """A page of a whole rollout."""
    resolution = rollout.renderer.resolution
    sections = []
    turns = 0
    for number, segment in enumerate(rollout.segments):
        decline = rollout.declines[number - 1] if number else None
        title = f"Segment {number + 1}: {_count(len(segment.token_ids), 'id')}, {segment.sampled_count} sampled"
        blocks = list(_segment_blocks(rollout.renderer, segment, turns))
        turns += len(segment.turns)
        notice = "" if decline is None else decline.reason
        sections.append(Section(title, blocks, notice, decline is not None and decline.on_purpose))
    counts = f"{_count(rollout.turns, 'turn')} in {_count(len(rollout.segments), 'segment')}"
    said = f"{counts}, {resolution.backend}:{resolution.renderer}"
    return page(f"Rollout on {resolution.model or 'a model without a name'}", said, sections)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def rendered_page(renderer: ResolvedRenderer, messages: Sequence[Any], rendered: RenderedTokens) -> str:
    """A page of one rendered conversation, by the attribution that the backend gave."""
    count = len(rendered.token_ids)
    blocks = list(_attributed(renderer, messages, rendered))
    resolution = renderer.resolution
    title = f"{_count(count, 'id')} of {_count(len(messages), 'message')}"
    said = f"{resolution.backend}:{resolution.renderer}"
    return page(f"Prompt for {resolution.model or 'a model without a name'}", said, [Section(title, blocks)])


def _attributed(renderer: ResolvedRenderer, messages: Sequence[Any], rendered: RenderedTokens) -> Iterator[Block]:
    ids = rendered.token_ids
    indices = rendered.message_indices or [None] * len(ids)
    sampled = rendered.sampled_mask or [None] * len(ids)
    for index, run in itertools.groupby(zip(indices, ids, sampled, strict=True), key=lambda pair: pair[0]):
        tokens = [Token(token, text_of(renderer, token), mine) for _, token, mine in run]
        if index is None:
            yield Block("not attributed", "frame", tokens)
        elif index < 0:
            yield Block("frame", "frame", tokens)
        else:
            yield Block(f"message {index}: {messages[index]['role']}", str(messages[index]["role"]), tokens)


def _segment_blocks(renderer: ResolvedRenderer, segment: Segment, turns_before: int) -> Iterator[Block]:
    position, message = 0, 0
    opener = _generation_prompt(renderer, segment)
    mask, logprobs, versions = segment.sampled_mask, segment.logprobs, segment.versions
    for number, turn in enumerate(segment.turns, turns_before + 1):
        yield from _given(renderer, segment, opener, position, turn.start, message, turn.message)
        tokens = [
            Token(
                token,
                text_of(renderer, token),
                mask[at],
                logprobs[at],
                versions[at],
                restored=turn.restored_stop and at == turn.end - 1,
                forced=not mask[at],
            )
            for at, token in enumerate(segment.token_ids[turn.start : turn.end], turn.start)
        ]
        yield Block(f"message {turn.message}: assistant, sampled turn {number}", "assistant", tokens)
        position, message = turn.end, turn.message + 1
    yield from _given(renderer, segment, opener, position, len(segment.token_ids), message, len(segment.messages))


def _generation_prompt(renderer: ResolvedRenderer, segment: Segment) -> list[int]:
    """The ids that begin an assistant turn behind the segment's first prompt; none where the format writes them otherwise."""
    messages = segment.messages[: segment.turns[0].message] if segment.turns else segment.messages
    try:
        bare = renderer.render_ids(messages, tools=segment.tools)
        prompt = renderer.render_ids(messages, tools=segment.tools, add_generation_prompt=True)
    except RendererError:
        return []
    return prompt[len(bare) :] if prompt[: len(bare)] == bare else []


def _given(
    renderer: ResolvedRenderer,
    segment: Segment,
    opener: list[int],
    start: int,
    end: int,
    first: int,
    last: int,
) -> Iterator[Block]:
    """Ids that weren't sampled: the first prompt by messages where the backend tells, else what a bridge added as one block,
    and the generation prompt."""
    ids = segment.token_ids[start:end]
    if opener and ids[-len(opener) :] == opener:
        yield from _given(renderer, segment, [], start, end - len(opener), first, last)
        yield Block("generation prompt", "frame", [Token(token, text_of(renderer, token)) for token in opener])
        return
    if not ids:
        return
    if not start:
        try:
            rendered = renderer.render(segment.messages[:last], tools=segment.tools, add_generation_prompt=True)
        except RendererError:
            rendered = RenderedTokens([])
        if rendered.token_ids[:end] == ids and rendered.message_indices is not None:
            indices = rendered.message_indices[:end]
            yield from _attributed(renderer, segment.messages, RenderedTokens(ids, indices, [False] * len(ids)))
            return
    roles = [str(message["role"]) for message in segment.messages[first:last]]
    title = f"messages {first} to {last - 1}: {', '.join(roles)}" if len(roles) > 1 else f"message {first}: {''.join(roles)}"
    kind = roles[0] if len(set(roles)) == 1 else "frame"
    yield Block(title if roles else "frame", kind, [Token(token, text_of(renderer, token)) for token in ids])


def text_of(renderer: ResolvedRenderer, token: int) -> str:
    """One id's text; the id itself in angle brackets where the tokenizer has none for it."""
    decode = getattr(renderer.tokenizer, "decode", None)
    try:
        return str(decode([token], skip_special_tokens=False)) if callable(decode) else f"<{token}>"
    except Exception:  # an id behind the vocabulary, or a decoder of another signature
        return f"<{token}>"


def page(title: str, said: str, sections: Iterable[Section]) -> str:
    """The document."""
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body><main>",
        f"<h1>{html.escape(title)}</h1><p>{html.escape(said)}</p>{LEGEND}",
    ]
    for section in sections:
        if section.notice:
            what = "New segment, on purpose" if section.on_purpose else "New segment, the bridge was declined"
            parts.append(f'<p class="notice" role="note"><strong>{what}:</strong> {html.escape(section.notice)}</p>')
        parts.append(f"<section><h2>{html.escape(section.title)}</h2>")
        parts += map(_block, section.blocks)
        parts.append("</section>")
    parts.append(f'</main><p id="told" role="status" aria-live="polite">{HINT}</p><script>{SCRIPT}</script></body></html>')
    return "\n".join(parts)


HINT = "Point at a token, or press Tab and then the arrow keys."
LEGEND = (
    '<ul class="legend" aria-label="Colours"><li><span class="t g">given</span></li>'
    + "".join(
        f'<li><span class="t s p{at}">{name}</span></li>'
        for at, name in enumerate(("p &gt; 0.9", "0.5", "0.1", "0.01", "less"))
    )
    + '<li><span class="t s n">sampled, log-probability not known</span></li>'
    '<li><span class="t s n r">stop put back</span></li><li><span class="t g f">forced</span></li></ul>'
)


def _block(block: Block) -> str:
    title, kind = html.escape(block.title), html.escape(block.kind)
    tokens = "".join(_token(token, at) for at, token in enumerate(block.tokens))
    return f'<div class="block {kind}" role="group" aria-label="{title}"><h3>{title}</h3><p class="tokens">{tokens}</p></div>'


def _token(token: Token, at: int) -> str:
    facts = [f"id {token.id}"]
    kinds = ["t"]
    if token.sampled:
        kinds.append("s")
        if token.logprob is None:
            kinds.append("n")
            facts.append("sampled, log-probability not known")
        else:
            kinds.append(f"p{sum(token.logprob < bound for bound in BOUNDS)}")
            facts.append(f"sampled, log-probability {token.logprob:.4g}")
    else:
        kinds.append("g")
        facts.append("not sampled" if token.sampled is False else "not known whether sampled")
    if token.version is not None:
        facts.append(f"by weights version {token.version}")
    if token.forced:
        kinds.append("f")
        facts.append("forced by the engine")
    if token.restored:
        kinds.append("r")
        facts.append("a stop that the engine left out, put back")
    shown = html.escape(token.text).replace("\n", '<i class="w">↵</i>\n') or '<i class="w">∅</i>'
    return f'<span class="{" ".join(kinds)}" title="{"; ".join(facts)}" tabindex="{-1 if at else 0}">{shown}</span>'


def framed(document: str) -> str:
    """The page for a notebook: in a frame of its own, so that neither styles the other."""
    style = "width:100%;height:32em;border:1px solid #8888"
    return f'<iframe title="tokens" srcdoc="{html.escape(document)}" style="{style}"></iframe>'
