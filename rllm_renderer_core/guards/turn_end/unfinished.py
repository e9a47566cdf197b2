"""Whether a completion may be bridged as it ends: not inside reasoning, and not cut off inside a tool call."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import BridgeDeclined
from ...normal_form.ids import IdsView, last_of
from ...probing.format import Format
from ...types import ParsedResponse

Parse = Callable[[list[int]], ParsedResponse]

_PROMPT_END = 16
"""How many ids at its end a prompt's generation prompt may have."""


class TurnEndGuard:
    """Declines completions that end inside something, for one backend's renderer.

    Args:
        form: The delimiters of its format.
        more_stops: Ids at which sampling stops too, though they close no turn of the format: the tokenizer's end of sequence.
    """

    def __init__(self, form: Format, more_stops: frozenset[int]) -> None:
        self._format, self._more_stops = form, more_stops

    def before_bridge(self, prompt: IdsView, sampled: list[int], parse: Parse) -> None:
        """Check a completion.

        Args:
            prompt: What it was sampled behind.
            sampled: The completion.
            parse: Parses it behind that prompt; asked only where the ids alone don't tell.

        Raises:
            BridgeDeclined: It ends inside reasoning, was cut off inside a tool call, or there is no turn that one stop ends.
        """
        form = self._format
        if not prompt.size:
            raise BridgeDeclined("the previous prompt is empty")
        if not sampled:
            # What was bridged before this ends with a generation prompt: closing that turn would leave an empty one.
            raise BridgeDeclined("nothing was sampled since the previous prompt")
        stopped = not form.stops.isdisjoint(sampled)
        if stopped and sum(map(form.stops.__contains__, sampled)) > 1:
            raise BridgeDeclined("the completion has more than one stop")
        if not self._more_stops.isdisjoint(sampled):
            raise BridgeDeclined("the completion ends with the tokenizer's end of sequence, which closes no turn of the format")
        markers = form.reasoning_ids
        inside = markers is None or self._may_be_inside(markers, prompt, sampled)
        if markers == () and self._may_be_inside(form.any_reasoning_ids, prompt, sampled):
            # The format shows no reasoning, so no parse tells; the model may write its markers all the same.
            raise BridgeDeclined(f"the completion {'stopped' if stopped else 'was cut off'} inside reasoning")
        if stopped and not inside:
            return
        parsed = parse(sampled)
        if not parsed.reasoning_complete:
            raise BridgeDeclined(f"the completion {'stopped' if stopped else 'was cut off'} inside reasoning")
        if not stopped and self._inside_call(sampled, parsed):
            raise BridgeDeclined("the completion was cut off inside a tool call")

    def _inside_call(self, sampled: list[int], parsed: ParsedResponse) -> bool:
        """Whether a call was begun, or may be about to be, and its closing delimiter doesn't stand at the very end."""
        if not all(call.sound for call in parsed.tool_calls):
            return True
        delimiters = self._format.call_delimiters
        if delimiters is None:
            return False
        opening, closing = delimiters
        decoder = self._format.decoder
        try:
            text = decoder.text(sampled)
            if self._format.reasoning_texts:
                text = text.rsplit(self._format.reasoning_texts[1], 1)[-1]
        except Exception:  # an id that has no text
            return True
        bare = text.strip()
        if opening not in text and not (bare and opening.startswith(bare)):
            return False
        if not text.rstrip().endswith(closing):
            return True
        if not parsed.tool_calls:  # a parser that was told of no tools may find none; a special token ends one all the same
            return sampled[-1] not in decoder.control
        return opening in parsed.content

    def _may_be_inside(self, markers: tuple[int, int] | tuple[()], prompt: IdsView, sampled: list[int]) -> bool:
        """Whether the last reasoning marker opens: cheap, and right but for markers in the text of a message.

        Of the prompt its end is searched, and where no special token stands there (it goes on with a begun thought), what comes
        before up to one.
        """
        if not markers:
            return False
        last = next((token for token in reversed(sampled) if token in markers), None)
        if last is None:
            end = prompt[-_PROMPT_END:]
            last = last_of(markers, end)
            if last is None and self._format.decoder.control.isdisjoint(end):
                last = last_of(self._format.decoder.control.union(markers), prompt[:-_PROMPT_END])
        return last == markers[0]
