"""Checks of the bridge contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..errors import BridgeDeclined
from ..normal_form.ids import BridgedTokens
from ..renderer.resolved import ResolvedRenderer
from . import turns as script
from .capabilities import Capabilities, by_name
from .checks import bridge, check_delta, closing_ids, completions, oracle_of
from .turns import TURNS, Turn, token_lists


class BridgingChecks(Capabilities):
    """Checks of ``bridge_to_next_turn``: prompt, completion and more, or a decline."""

    def test_it_bridges(self, resolved: ResolvedRenderer) -> None:
        needs = ("calls", "results") if self.calls and self.results else ()
        turn = self._fitting(next(turn for turn in TURNS if turn.needs == needs))
        for each in (TURNS[0], turn):
            outs = [bridge(resolved, prompt, sampled, each) for prompt, sampled in completions(resolved, each, self.reasoning)]
            bridged = [out for out in outs if isinstance(out, BridgedTokens)]
            if self.bridges:
                assert bridged, f"{each.name}: declared as a bridge, but declined: {outs[0]}"
            else:
                assert not bridged, f"{each.name}: bridged, though declared not to"

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_a_bridge_is_p_and_c_and_more_or_none(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        self._need("bridges")
        turn = self._fitting(turn)
        for prompt, sampled in completions(resolved, turn, self.reasoning):
            for completion in (sampled, sampled[:-1], [*sampled, sampled[-1]], []):
                bridge(resolved, prompt, completion, turn)

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_every_new_message_shows(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        turn = self._fitting(turn)
        for prompt, sampled, out in self._bridged(resolved, turn):
            for index, message in enumerate(turn.new):
                changed = bridge(resolved, prompt, sampled, turn.altered(index + 1))
                shows = isinstance(changed, BridgeDeclined) or changed.token_ids != out.token_ids
                assert shows, f"new message {index} ({message['role']}) doesn't show in the delta"

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_the_delta_is_that_of_a_full_render(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        turn = self._fitting(turn)
        for prompt, sampled, out in self._bridged(resolved, turn):
            check_delta(resolved, oracle_of(resolved, type(self).oracle), turn, prompt, sampled, out, self.stop_token)

    def test_generated_turns_keep_the_contract(self, resolved: ResolvedRenderer) -> None:
        self._need("bridges")
        oracle = oracle_of(resolved, type(self).oracle)
        closes = sorted(closing_ids(resolved))[-16:]

        @self._settings
        @given(script.turns(type(self)), st.data())
        def check(turn: Turn, data: st.DataObject) -> None:
            for prompt, sampled in completions(resolved, turn, self.reasoning):
                out = bridge(resolved, prompt, sampled, turn)
                if isinstance(out, BridgedTokens):
                    check_delta(resolved, oracle, turn, prompt, sampled, out, self.stop_token)
                    index = data.draw(st.integers(0, len(turn.new) - 1))
                    other = bridge(resolved, prompt, sampled, turn.altered(index + 1))
                    shows = isinstance(other, BridgeDeclined) or other.token_ids != out.token_ids
                    assert shows, f"new message {index} doesn't show in the delta"
                odd = data.draw(token_lists(closes, sampled))
                bridge(resolved, prompt, data.draw(st.sampled_from([odd, [*odd, *sampled[-1:]], sampled + odd])), turn)

        check()
