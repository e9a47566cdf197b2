"""Completions, parsed by what the renderer itself shows.

Upstream's own parsers raise on a completion that was cut off or is broken, drop white space, and give a call's arguments as
values without their text, so that neither every attempt nor every id could be accounted for. The core's learned parser reads
the same completions by ids, and keeps what isn't a call as text with a status. Formats that write a turn as messages
(harmony, Inkling) are read message by message, by the core's ``BlockParser``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rllm_renderer_core.contract.decoding import decoder_of
from rllm_renderer_core.learned.parser import LearnedParser
from rllm_renderer_core.vocabulary import control_ids


def parser_of(
    render_ids: Callable[..., Sequence[int]], tokenizer: Any, stop_ids: Sequence[int], control: frozenset[int]
) -> LearnedParser:
    """The core's parser over a renderer, on the tokenizer that was passed in.

    Args:
        render_ids: ``Renderer.render_ids``.
        tokenizer: It decodes; ``control`` are the ids of its control tokens as upstream has them.
        stop_ids: Ids at which sampling stops.
    """

    return LearnedParser(render_ids, decoder_of(tokenizer), stop_ids, control | control_ids(tokenizer))
