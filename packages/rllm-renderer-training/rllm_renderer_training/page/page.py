"""Tokens as a page of HTML, complete in one file: blocks by message, ids on hover, sampled ids coloured by log-probability.

No font, script or style is loaded from anywhere. The token under the pointer, or the one that the arrow keys are on, is told in
a line at the bottom, which a screen reader reads out.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rllm_renderer_core.errors import RendererError
from rllm_renderer_core.renderer.resolution import Resolution
from rllm_renderer_core.renderer.resolved import ResolvedRenderer
from rllm_renderer_core.types import RenderedTokens

from ..rollout.segment import Decline, Segment
from .style import SCRIPT, STYLE

if TYPE_CHECKING:
    from ..rollout.state import RolloutState

BOUNDS = (-0.1, -0.7, -2.3, -4.6)
"""Log-probabilities between the five colours: about 0.9, 0.5, 0.1 and 0.01."""


class Token(NamedTuple):
    """One id as it is shown."""

    id: int
    text: str
    sampled: bool | None = False
    logprob: float | None = None
    version: int | None = None
    restored: bool = False
    forced: bool = False


class Block(NamedTuple):
    """A run of ids that belong together: of one message, of the frame around it, of one sampled turn."""

    title: str
    kind: str
    tokens: list[Token]


def rollout_page(rollout: RolloutState) -> str:
    """A page of a whole rollout."""
    sections: list[str] = []
    turns = 0
    for number, segment in enumerate(rollout.segments):
        title = f"Segment {number + 1}: {_count(len(segment.token_ids), 'id')}, {segment.sampled_count} sampled"
        blocks = _segment_blocks(rollout.renderer, segment, turns)
        sections += _section(title, blocks, rollout.declines[number - 1] if number else None)
        turns += len(segment.turns)
    counts = f"{_count(rollout.turns, 'turn')} in {_count(len(rollout.segments), 'segment')}, "
    return _page("Rollout on", rollout.renderer.resolution, counts, sections)


def rendered_page(renderer: ResolvedRenderer, messages: Sequence[Any], rendered: RenderedTokens) -> str:
    """A page of one rendered conversation, by the attribution that the backend gave."""
    title = f"{_count(len(rendered.token_ids), 'id')} of {_count(len(messages), 'message')}"
    return _page("Prompt for", renderer.resolution, "", _section(title, _attributed(renderer, messages, rendered)))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _attributed(renderer: ResolvedRenderer, messages: Sequence[Any], rendered: RenderedTokens) -> Iterator[Block]:
    ids = rendered.token_ids
    indices = rendered.message_indices or [None] * len(ids)
    sampled = rendered.sampled_mask or [None] * len(ids)
    for index, run in itertools.groupby(zip(indices, ids, sampled, strict=True), key=lambda pair: pair[0]):
        role = "frame" if index is None or index < 0 else str(messages[index]["role"])
        title = "not attributed" if index is None else "frame" if index < 0 else f"message {index}: {role}"
        yield Block(title, role, [Token(token, text_of(renderer, token), mine) for _, token, mine in run])


def _segment_blocks(renderer: ResolvedRenderer, segment: Segment, turns_before: int) -> Iterator[Block]:
    position, message = 0, 0
    opener = _generation_prompt(renderer, segment)
    columns = (segment.token_ids, segment.sampled_mask, segment.logprobs, segment.versions)
    for number, turn in enumerate(segment.turns, turns_before + 1):
        yield from _given(renderer, segment, opener, position, turn.start, message, turn.message)
        tokens = [
            Token(token, text_of(renderer, token), mine, logprob, version, forced=not mine)
            for token, mine, logprob, version in zip(*(values[turn.start : turn.end] for values in columns), strict=True)
        ]
        tokens[-1:] = [token._replace(restored=turn.restored_stop) for token in tokens[-1:]]
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
    renderer: ResolvedRenderer, segment: Segment, opener: list[int], start: int, end: int, first: int, last: int
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


def _page(what: str, resolution: Resolution, said: str, sections: Iterable[str]) -> str:
    """The document."""
    title = html.escape(f"{what} {resolution.model or 'a model without a name'}")
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body><main>",
        f"<h1>{title}</h1><p>{html.escape(f'{said}{resolution.backend}:{resolution.renderer}')}</p>{LEGEND}",
        *sections,
        f'</main><p id="told" role="status" aria-live="polite">{HINT}</p><script>{SCRIPT}</script></body></html>',
    ]
    return "\n".join(parts)


def _section(title: str, blocks: Iterator[Block], decline: Decline | None = None) -> Iterator[str]:
    if decline is not None and decline.reason:
        what = "New segment, on purpose" if decline.on_purpose else "New segment, the bridge was declined"
        yield f'<p class="notice" role="note"><strong>{what}:</strong> {html.escape(decline.reason)}</p>'
    yield f"<section><h2>{html.escape(title)}</h2>"
    for block in blocks:
        name, kind = html.escape(block.title), html.escape(block.kind)
        tokens = "".join(_token(token, at) for at, token in enumerate(block.tokens))
        yield f'<div class="block {kind}" role="group" aria-label="{name}"><h3>{name}</h3><p class="tokens">{tokens}</p></div>'
    yield "</section>"


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


def _token(token: Token, at: int) -> str:
    if not token.sampled:
        kind, fact = "g", "not sampled" if token.sampled is False else "not known whether sampled"
    elif token.logprob is None:
        kind, fact = "s n", "sampled, log-probability not known"
    else:
        kind = f"s p{sum(token.logprob < bound for bound in BOUNDS)}"
        fact = f"sampled, log-probability {token.logprob:.4g}"
    facts = f"id {token.id}; {fact}" + ("" if token.version is None else f"; by weights version {token.version}")
    if token.forced:
        kind, facts = f"{kind} f", f"{facts}; forced by the engine"
    if token.restored:
        kind, facts = f"{kind} r", f"{facts}; a stop that the engine left out, put back"
    shown = html.escape(token.text).replace("\n", '<i class="w">↵</i>\n') or '<i class="w">∅</i>'
    return f'<span class="t {kind}" title="{facts}" tabindex="{-1 if at else 0}">{shown}</span>'


def framed(document: str) -> str:
    """The page for a notebook: in a frame of its own, so that neither styles the other."""
    style = "width:100%;height:32em;border:1px solid #8888"
    return f'<iframe title="tokens" srcdoc="{html.escape(document)}" style="{style}"></iframe>'
