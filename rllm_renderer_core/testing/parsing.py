"""Checks of stop tokens and parsing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ..normal_form.ids import common_prefix
from ..renderer.resolved import ResolvedRenderer
from ..types import Termination
from . import turns as script
from .capabilities import Capabilities
from .checks import check_parsed, closing_ids, completions
from .turns import OPENING, TURNS, declared_tools, token_lists


class ParsingChecks(Capabilities):
    """Checks of ``get_stop_token_ids`` and ``parse_response``."""

    def test_stop_ids_are_ints(self, resolved: ResolvedRenderer) -> None:
        stops = resolved.upstream.get_stop_token_ids()
        assert isinstance(stops, list) and all(type(stop) is int for stop in stops)
        assert all(isinstance(text, str) for text in resolved.get_stop_strings())
        assert stops or resolved.get_stop_strings() or not self.stop_token, "neither stop tokens nor stop strings"

    def test_a_closed_turn_ends_with_a_stop(self, resolved: ResolvedRenderer) -> None:
        self._need("stop_token")
        stops = set(resolved.upstream.get_stop_token_ids())  # the format's own: the core adds what else ends a turn
        one, other = (
            resolved.render_ids([*OPENING, script.assistant(text), script.user("And lids?")]) for text in ("alpha1", "omega7")
        )
        asked = resolved.render_ids([*OPENING, script.assistant("alpha1"), script.user("zq9")])
        start, end = len(one) - common_prefix(reversed(one), reversed(other)), common_prefix(one, asked)
        assert stops & set(one[start:end]), "no stop token between a closed assistant turn and the next message"

    def test_parse_never_raises(self, resolved: ResolvedRenderer) -> None:
        plain = resolved.render_ids(OPENING)
        special = [*resolved.get_stop_token_ids(), *sorted(closing_ids(resolved))[-64:]]

        @self._settings
        @given(token_lists(special, plain), st.none() | token_lists(special, plain), st.booleans())
        def check(ids: list[int], prompt: list[int] | None, with_tools: bool) -> None:
            tools = declared_tools() if with_tools else None
            check_parsed(resolved.upstream.parse_response(list(ids), tools=tools, prompt_ids=prompt))
            check_parsed(resolved.parse_response(ids, tools=tools, prompt_ids=prompt))

        check()

    def test_parse_reads_what_was_rendered(self, resolved: ResolvedRenderer) -> None:
        for turn in self._able(TURNS[:1]):
            for prompt, sampled in completions(resolved, turn, self.reasoning):
                parsed = resolved.parse_response(sampled, prompt_ids=prompt)
                assert "four apples" in parsed.content, "the text of a rendered turn isn't in its content"
                assert parsed.termination is not Termination.TRUNCATED or not self.stop_token, "a stop was sampled"
