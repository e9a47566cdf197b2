"""The contract of a renderer as a pytest class.

Subclass it in a plugin's tests::

    @pytest.fixture(scope="module")
    def renderer():  # what resolve returned, or a bare renderer
        return resolve("me/MyModel", tokenizer)

    class TestMyModel(RendererConformance):
        parallel_calls = False  # the format has one call a turn

        def reference(self, messages, tools, add_generation_prompt):
            return tokenizer.apply_chat_template(...)

The class attributes say what the renderer can do; what it can't is skipped, and the skip says which attribute decided.
"""

from __future__ import annotations

import copy
import pickle

import pytest

from ..normal_form.messages import normalize_messages
from ..normal_form.tools import normalize_tools
from ..renderer.resolved import ResolvedRenderer
from .bridging import BridgingChecks
from .capabilities import by_name
from .checks import check_threads, completions, ids_of_bridge
from .parsing import ParsingChecks
from .rendering import RenderingChecks
from .turns import CONVERSATIONS, TURNS, Conversation, Turn


class RendererConformance(RenderingChecks, ParsingChecks, BridgingChecks):
    """Checks a renderer against the contract of ``Renderer``.

    Its attributes are those of ``Capabilities``.
    """

    @pytest.mark.parametrize("conversation", CONVERSATIONS, **by_name)
    def test_inputs_are_never_changed(self, resolved: ResolvedRenderer, conversation: Conversation) -> None:
        conversation = self._fitting(conversation)
        messages, tools = copy.deepcopy(conversation.messages), conversation.tools
        first = resolved.render_ids(messages, tools=tools)
        assert resolved.render_ids(messages, tools=tools) == first, "the second render differs"
        assert (messages, tools) == (conversation.messages, conversation.tools), "render changed its input"
        normal, declared = normalize_messages(messages), normalize_tools(tools)
        before = copy.deepcopy((normal, declared))
        resolved.upstream.render(normal, tools=declared)
        resolved.upstream.render_ids(normal, tools=declared)
        assert (normal, declared) == before, "the bare renderer changed its input"

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_bridge_inputs_are_never_changed(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        self._need("bridges")
        turn = self._fitting(turn)
        for prompt, sampled in completions(resolved, turn, self.reasoning):
            given_ = (prompt, sampled, normalize_messages(turn.new), normalize_tools(turn.tools), turn.assistant)
            before = copy.deepcopy(given_)
            first = ids_of_bridge(resolved.upstream, *given_)
            assert given_ == before, "bridge_to_next_turn changed its input"
            assert ids_of_bridge(resolved.upstream, *given_) == first, "the second bridge differs"

    def test_threads_give_what_one_gives(self, resolved: ResolvedRenderer) -> None:
        check_threads(self._jobs(resolved, resolved))

    def test_threads_need_no_lock(self, resolved: ResolvedRenderer) -> None:
        self._need("needs_no_lock")
        check_threads(self._jobs(resolved, resolved.upstream))

    def test_pickling_keeps_ids_and_resolution(self, resolved: ResolvedRenderer) -> None:
        restored = pickle.loads(pickle.dumps(resolved))
        assert restored.resolution == resolved.resolution
        assert restored.get_stop_token_ids() == resolved.get_stop_token_ids()
        for here, there in zip(self._jobs(resolved, resolved), self._jobs(resolved, restored), strict=True):
            assert there() == here(), "differs after the round trip"
