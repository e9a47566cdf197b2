"""The guards of one backend's renderer that know where sampling stops: of its parse, its bridge and its masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..guards.parse_check.checking import ParseCheck
from ..guards.sampled_mask.mask import SampledMask
from ..normal_form.returned import checked_ids, checked_stop_strings
from ..normal_form.tokenizer import eos_ids
from ..probing.text import without_cleanup
from ..types import Renderer
from .bridging import BridgeGuard, Guarded
from .parsing import ParseGuard


class Guards:
    """Made once, when one is asked for: a chat template's stops are learned by renders, which a resolution needn't pay for.

    Args:
        guarded: The renderer.
        render_ids: The resolved renderer's.
        marked: See ``ParseGuard``.
        parse_check: Whether completions are checked.

    Attributes:
        stops: The format's own stop ids.
        stop_strings: Its stops that aren't one id.
        parsing, bridging, masks: The guards.

    Raises:
        ContractError: The stops aren't ids or texts.
    """

    def __init__(
        self,
        guarded: Guarded,
        render_ids: Callable[..., Sequence[int]],
        marked: Callable[[], Renderer] | None,
        *,
        parse_check: bool,
    ) -> None:
        upstream, text, backend = guarded.upstream, guarded.text, guarded.backend
        tokenizer = without_cleanup(guarded.query.tokenizer)
        with guarded.lock:
            self.stops = frozenset(checked_ids(upstream.get_stop_token_ids(), backend, "get_stop_token_ids"))
            stop_strings = getattr(upstream, "get_stop_strings", None)
            self.stop_strings = checked_stop_strings(stop_strings() if callable(stop_strings) else [], backend)
        self.masks = SampledMask(render_ids, self.stops)
        check = None
        if parse_check and callable(getattr(tokenizer, "decode", None)):
            known = {key: getattr(upstream, key) for key in ("written_calls", "frame_words") if hasattr(upstream, key)}
            check = ParseCheck(
                lambda ms: upstream.render_ids(text.messages(ms)), tokenizer, self.stops, self.stop_strings, **known
            )
        more = frozenset(eos_ids(guarded.query.tokenizer)) - self.stops
        self.parsing = ParseGuard(upstream, guarded.name, guarded.lock, check, more_stops=more, marked=marked)
        self.bridging = BridgeGuard(guarded, self.parsing, self.stops)
