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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..contract.messages import normalize_messages, normalize_tools
from ..learned.experiment import common_prefix
from ..renderer import ResolvedRenderer
from ..types import RenderedTokens, Termination, ToolCall, ToolSpec
from . import turns as script
from .checks import (
    bridge,
    check_attribution,
    check_delta,
    check_parsed,
    check_threads,
    closing_ids,
    completions,
    fate,
    ids_of_bridge,
    markers,
    oracle_of,
)
from .turns import CONVERSATIONS, OPENING, TURNS, Conversation, Turn, declared_tools, token_lists
from .wrapping import wrap

by_name: dict[str, Any] = {"ids": lambda each: each.name}


class RendererConformance:
    """Checks a renderer against the contract of :class:`rllm_renderer_core.Renderer`.

    Attributes:
        bridges: It bridges turns. Where it doesn't, each bridge must be ``None``.
        tools: It renders tool declarations, calls and results.
        parallel_calls: An assistant turn may have several calls.
        reasoning: It renders ``reasoning_content`` of the last turn.
        system_in_new: A system message may come in the middle of a conversation.
        users_in_a_row: A user message may follow a user message.
        stop_token: It has stop tokens, and closes past turns with one of them.
        needs_no_lock: The bare renderer may be used by many threads at once. Not needed: the core holds a lock.
        marker_text: What becomes of a control token's text in a user's or a tool's message: ``"control"``, ``"text"`` or
            ``"refused"``. ``None`` means: find out; it is in the report's ``user_properties`` either way.
        examples: How many generated cases each test tries.
        reference: ``(messages, tools, add_generation_prompt) -> ids`` of the official template or encoder. What it raises skips
            the conversation.
    """

    bridges: ClassVar[bool] = True
    tools: ClassVar[bool] = True
    parallel_calls: ClassVar[bool] = True
    reasoning: ClassVar[bool] = True
    system_in_new: ClassVar[bool] = True
    users_in_a_row: ClassVar[bool] = True
    stop_token: ClassVar[bool] = True
    needs_no_lock: ClassVar[bool] = False
    marker_text: ClassVar[str | None] = None
    examples: ClassVar[int] = 50
    reference: Callable[..., Sequence[int]] | None = None

    @pytest.fixture
    def resolved(self, renderer: Any) -> ResolvedRenderer:
        """The renderer under the core's contract."""
        return renderer if isinstance(renderer, ResolvedRenderer) else wrap(renderer, getattr(renderer, "tokenizer", None))

    # Rendering

    @pytest.mark.parametrize("conversation", CONVERSATIONS, **by_name)
    def test_render_gives_ids_with_attribution(self, resolved: ResolvedRenderer, conversation: Conversation) -> None:
        self._need(*conversation.needs)
        for opener in (False, True):
            out = resolved.render(conversation.messages, tools=conversation.tools, add_generation_prompt=opener)
            ids = resolved.render_ids(conversation.messages, tools=conversation.tools, add_generation_prompt=opener)
            assert out.token_ids == ids, "render and render_ids differ"
            assert ids and all(type(token) is int for token in ids), "ids must be a non-empty list of int"
            roles = [message["role"] for message in conversation.messages]
            check_attribution(out, roles)

    def test_every_message_shows_in_the_ids(self, resolved: ResolvedRenderer) -> None:
        for conversation in self._able(CONVERSATIONS):
            ids = resolved.render_ids(conversation.messages, tools=conversation.tools)
            for index, message in enumerate(conversation.messages):
                if message["content"]:
                    other = [*conversation.messages]
                    other[index] = {**message, "content": "zq9 " + message["content"]}
                    changed = resolved.render_ids(other, tools=conversation.tools)
                    assert changed != ids, f"{conversation.name}: message {index} ({message['role']}) doesn't show"

    @pytest.mark.parametrize("conversation", CONVERSATIONS, **by_name)
    def test_render_equals_the_reference(self, resolved: ResolvedRenderer, conversation: Conversation) -> None:
        self._need(*conversation.needs)
        if self.reference is None:
            pytest.skip(f"{type(self).__name__} has no reference")
        for opener in (True, False):
            try:
                expected = list(self.reference(copy.deepcopy(conversation.messages), conversation.tools, opener))
            except Exception as error:
                pytest.skip(f"the reference refuses: {type(error).__name__}: {error}")
            ids = resolved.render_ids(conversation.messages, tools=conversation.tools, add_generation_prompt=opener)
            assert ids == expected, f"add_generation_prompt={opener}: differs from the reference"

    # Message forms

    @pytest.mark.parametrize("blank", [{}, {"content": None}, {"content": []}], ids=["absent", "None", "no parts"])
    def test_blank_content_has_one_form(self, resolved: ResolvedRenderer, blank: dict[str, Any]) -> None:
        messages = [{"role": "user", "content": ""}]
        assert resolved.render_ids([{"role": "user", **blank}]) == resolved.render_ids(messages)
        self._need("tools")
        turn = {key: value for key, value in script.ONE_CALL.items() if key != "content"}
        expected = resolved.render_ids([*OPENING, script.ONE_CALL], tools=declared_tools())
        assert resolved.render_ids([*OPENING, {**turn, **blank}], tools=declared_tools()) == expected

    def test_text_parts_are_joined(self, resolved: ResolvedRenderer) -> None:
        parts = [{"type": "text", "text": "How many "}, {"type": "text", "text": "apples?"}]
        assert resolved.render_ids([script.SYSTEM, {"role": "user", "content": parts}]) == resolved.render_ids(OPENING)

    @pytest.mark.parametrize("form", ["mapping", "flat", "object", "ToolCall"])
    def test_calls_have_one_meaning_in_all_forms(self, resolved: ResolvedRenderer, form: str) -> None:
        self._need("tools")
        call = script.call("look", 0)
        text = call["function"]["arguments"]
        other: Any = {
            "mapping": {**call, "function": {"name": "look", "arguments": script.ARGUMENTS}},
            "flat": {"id": "call_0", "name": "look", "arguments": text},
            "object": SimpleNamespace(id="call_0", function=SimpleNamespace(name="look", arguments=text)),
            "ToolCall": ToolCall("look", text, id="call_0"),
        }[form]
        expected = resolved.render_ids([*OPENING, script.assistant("", call)], tools=declared_tools())
        assert resolved.render_ids([*OPENING, script.assistant("", other)], tools=declared_tools()) == expected

    def test_tools_have_one_meaning_in_all_forms(self, resolved: ResolvedRenderer) -> None:
        self._need("tools")
        expected = resolved.render_ids(OPENING, tools=declared_tools())
        bare: list[Any] = [tool["function"] for tool in declared_tools()]
        assert resolved.render_ids(OPENING, tools=bare) == expected, "bare functions"
        assert resolved.render_ids(OPENING, tools=[ToolSpec(**tool) for tool in bare]) == expected, "ToolSpec"

    def test_marker_text_is_reported(self, resolved: ResolvedRenderer, request: pytest.FixtureRequest) -> None:
        texts = markers(resolved)
        if not texts:
            pytest.skip("the tokenizer tells no control tokens")
        places = {"user": OPENING, "tool": [*OPENING, script.ONE_CALL, script.result("look", 0, "")]}
        for where, messages in places.items():
            if where == "tool" and not self.tools:
                continue
            found = sorted({fate(resolved, messages, text, token) for text, token in texts.items()})
            request.node.user_properties.append((f"marker text in {where} content", " or ".join(found)))
            if self.marker_text is not None:
                assert found == [self.marker_text], f"marker text in {where} content: declared {self.marker_text!r}"

    # Stops and parsing

    def test_stop_ids_are_ints(self, resolved: ResolvedRenderer) -> None:
        stops = resolved.upstream.get_stop_token_ids()
        assert isinstance(stops, list) and all(type(stop) is int for stop in stops)
        assert all(isinstance(text, str) for text in resolved.get_stop_strings())
        assert stops or resolved.get_stop_strings() or not self.stop_token, "neither stop tokens nor stop strings"

    def test_a_closed_turn_ends_with_a_stop(self, resolved: ResolvedRenderer) -> None:
        self._need("stop_token")
        stops = set(resolved.get_stop_token_ids())
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

    # Purity, threads, pickling

    @pytest.mark.parametrize("conversation", CONVERSATIONS, **by_name)
    def test_inputs_are_never_changed(self, resolved: ResolvedRenderer, conversation: Conversation) -> None:
        self._need(*conversation.needs)
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
        self._need("bridges", *turn.needs)
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

    # The bridge

    def test_it_bridges(self, resolved: ResolvedRenderer) -> None:
        turn = next(turn for turn in TURNS if turn.needs == (("tools",) if self.tools else ()))
        for each in (TURNS[0], turn):
            outs = [bridge(resolved, prompt, sampled, each) for prompt, sampled in completions(resolved, each, self.reasoning)]
            bridged = [out for out in outs if isinstance(out, RenderedTokens)]
            if self.bridges:
                assert bridged, f"{each.name}: declared as a bridge, but declined: {outs[0]}"
            else:
                assert not bridged, f"{each.name}: bridged, though declared not to"

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_a_bridge_is_p_and_c_and_more_or_none(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        self._need("bridges", *turn.needs)
        for prompt, sampled in completions(resolved, turn, self.reasoning):
            for completion in (sampled, sampled[:-1], [*sampled, sampled[-1]], []):
                bridge(resolved, prompt, completion, turn)

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_every_new_message_shows(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        self._need("bridges", *turn.needs)
        for prompt, sampled, out in self._bridged(resolved, turn):
            for index, message in enumerate(turn.new):
                other = Turn(turn.name, turn.assistant, turn.altered(index))
                changed = bridge(resolved, prompt, sampled, other)
                if isinstance(changed, RenderedTokens):
                    where = f"new message {index} ({message['role']})"
                    assert changed.token_ids != out.token_ids, f"{where} doesn't show in the delta"

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_the_delta_is_that_of_a_full_render(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        self._need("bridges", *turn.needs)
        for prompt, sampled, out in self._bridged(resolved, turn):
            check_delta(resolved, oracle_of(resolved), turn, prompt, sampled, out, closes=self.stop_token)

    def test_generated_turns_keep_the_contract(self, resolved: ResolvedRenderer) -> None:
        self._need("bridges")
        oracle = oracle_of(resolved)
        closes = sorted(closing_ids(resolved))[-16:]

        @self._settings
        @given(script.turns(type(self)), st.data())
        def check(turn: Turn, data: st.DataObject) -> None:
            for prompt, sampled in completions(resolved, turn, self.reasoning):
                out = bridge(resolved, prompt, sampled, turn)
                if isinstance(out, RenderedTokens):
                    check_delta(resolved, oracle, turn, prompt, sampled, out, closes=self.stop_token)
                    index = data.draw(st.integers(0, len(turn.new) - 1))
                    other = bridge(resolved, prompt, sampled, Turn("altered", turn.assistant, turn.altered(index)))
                    if isinstance(other, RenderedTokens):
                        assert other.token_ids != out.token_ids, f"new message {index} doesn't show in the delta"
                odd = data.draw(token_lists(closes, sampled))
                bridge(resolved, prompt, data.draw(st.sampled_from([odd, [*odd, *sampled[-1:]], sampled + odd])), turn)

        check()

    # Helpers

    def _need(self, *capabilities: str) -> None:
        for each in capabilities:
            if not getattr(self, each):
                pytest.skip(f"{type(self).__name__} declares {each}=False")

    def _able(self, cases: Sequence[Any]) -> Iterator[Any]:
        return (case for case in cases if all(getattr(self, each) for each in case.needs))

    @property
    def _settings(self) -> settings:
        checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
        return settings(
            max_examples=self.examples, deadline=None, database=None, derandomize=True, suppress_health_check=checks
        )

    def _bridged(self, resolved: ResolvedRenderer, turn: Turn) -> list[tuple[list[int], list[int], RenderedTokens]]:
        found = []
        reason = "there is no completion to bridge"
        for prompt, sampled in completions(resolved, turn, self.reasoning):
            out = bridge(resolved, prompt, sampled, turn)
            if isinstance(out, RenderedTokens):
                found.append((prompt, sampled, out))
            else:
                reason = out.reason
        if not found:
            pytest.skip(f"declined: {reason}")
        return found

    def _jobs(self, resolved: ResolvedRenderer, on: Any) -> list[Callable[[], Any]]:
        """Calls of everything on ``on``, which is ``resolved``, its copy or its bare renderer."""
        jobs: list[Callable[[], Any]] = []
        for each in self._able(CONVERSATIONS):
            messages, tools = normalize_messages(each.messages), normalize_tools(each.tools)
            jobs.append(partial(on.render, messages, tools=tools, add_generation_prompt=True))
            jobs.append(partial(on.render_ids, messages, tools=tools))
        for turn in self._able(TURNS):
            new, tools = normalize_messages(turn.new), normalize_tools(turn.tools)
            previous = normalize_messages([turn.assistant])[0]
            for prompt, sampled in completions(resolved, turn, self.reasoning):
                jobs.append(partial(on.parse_response, sampled, tools=tools, prompt_ids=prompt))
                jobs.append(partial(ids_of_bridge, on, prompt, sampled, new, tools, previous))
        return jobs
