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
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..contract import ResolvedRenderer
from ..errors import BridgeDeclined, ContractError, RendererError
from ..messages import normalize_messages, normalize_tools
from ..seam import SeamBridge
from ..types import ParsedResponse, RenderedTokens, Termination, ToolCall, ToolCallStatus, ToolSpec
from ..vocabulary import added_tokens, control_ids
from . import turns as script
from .turns import CONVERSATIONS, OPENING, TOOLS, TURNS, Conversation, Turn, token_lists
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
            ``"refused"``. ``None`` means: find out and report it (``record_property``).
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
            _check_attribution(out, roles)

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
        expected = resolved.render_ids([*OPENING, script.ONE_CALL], tools=TOOLS)
        assert resolved.render_ids([*OPENING, {**turn, **blank}], tools=TOOLS) == expected

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
        expected = resolved.render_ids([*OPENING, script.assistant("", call)], tools=TOOLS)
        assert resolved.render_ids([*OPENING, script.assistant("", other)], tools=TOOLS) == expected

    def test_tools_have_one_meaning_in_all_forms(self, resolved: ResolvedRenderer) -> None:
        self._need("tools")
        expected = resolved.render_ids(OPENING, tools=TOOLS)
        bare = [tool["function"] for tool in TOOLS]
        assert resolved.render_ids(OPENING, tools=bare) == expected, "bare functions"
        assert resolved.render_ids(OPENING, tools=[ToolSpec(**tool) for tool in bare]) == expected, "ToolSpec"

    def test_marker_text_is_reported(self, resolved: ResolvedRenderer, record_property: Callable[[str, Any], None]) -> None:
        texts = _markers(resolved)
        if not texts:
            pytest.skip("the tokenizer tells no control tokens")
        for where, messages in (("user", [script.user("say {} twice")]), ("tool", [*OPENING, script.ONE_CALL, script.TURNS[4].new[0]])):
            if where == "tool" and not self.tools:
                continue
            found = sorted({_fate(resolved, messages, text, token) for text, token in texts.items()})
            record_property(f"marker text in {where} content", " or ".join(found))
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
        start, end = len(one) - _common(reversed(one), reversed(other)), _common(one, asked)
        assert stops & set(one[start:end]), "no stop token between a closed assistant turn and the next message"

    def test_parse_never_raises(self, resolved: ResolvedRenderer) -> None:
        plain = resolved.render_ids(OPENING)
        special = [*resolved.get_stop_token_ids(), *sorted(self._control_ids(resolved))[-64:]]

        @self._settings
        @given(token_lists(special, plain), st.none() | token_lists(special, plain), st.sampled_from([None, TOOLS]))
        def check(ids: list[int], prompt: list[int] | None, tools: Any) -> None:
            _check_parsed(resolved.upstream.parse_response(list(ids), tools=tools, prompt_ids=prompt))
            _check_parsed(resolved.parse_response(ids, tools=tools, prompt_ids=prompt))

        check()

    def test_parse_reads_what_was_rendered(self, resolved: ResolvedRenderer) -> None:
        for turn in self._able(TURNS[:1]):
            for prompt, sampled in self._completions(resolved, turn):
                parsed = resolved.parse_response(sampled, prompt_ids=prompt)
                assert "four apples" in parsed.content, "the text of a rendered turn isn't in its content"
                assert parsed.termination is not Termination.TRUNCATED or not self.stop_token, "a stop was sampled"

    # Purity, threads, pickling

    @pytest.mark.parametrize("conversation", CONVERSATIONS, **by_name)
    def test_inputs_are_never_changed(self, resolved: ResolvedRenderer, conversation: Conversation) -> None:
        self._need(*conversation.needs)
        messages, tools = copy.deepcopy(conversation.messages), copy.deepcopy(conversation.tools)
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
        for prompt, sampled in self._completions(resolved, turn):
            given_ = (prompt, sampled, normalize_messages(turn.new), normalize_tools(turn.tools), turn.assistant)
            before = copy.deepcopy(given_)
            first = _bare_bridge(resolved, *given_)
            assert given_ == before, "bridge_to_next_turn changed its input"
            assert _bare_bridge(resolved, *given_) == first, "the second bridge differs"

    def test_threads_give_what_one_gives(self, resolved: ResolvedRenderer) -> None:
        _check_threads(self._jobs(resolved, resolved))

    def test_threads_need_no_lock(self, resolved: ResolvedRenderer) -> None:
        self._need("needs_no_lock")
        _check_threads(self._jobs(resolved, resolved.upstream))

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
            outs = [_bridge(resolved, prompt, sampled, each) for prompt, sampled in self._completions(resolved, each)]
            bridged = [out for out in outs if isinstance(out, RenderedTokens)]
            if self.bridges:
                assert bridged, f"{each.name}: declared as a bridge, but declined: {outs[0]}"
            else:
                assert not bridged, f"{each.name}: bridged, though declared not to"

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_a_bridge_is_p_and_c_and_more_or_none(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        self._need("bridges", *turn.needs)
        for prompt, sampled in self._completions(resolved, turn):
            for completion in (sampled, sampled[:-1], [*sampled, sampled[-1]], []):
                _bridge(resolved, prompt, completion, turn)

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_every_new_message_shows(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        self._need("bridges", *turn.needs)
        for prompt, sampled, out in self._bridged(resolved, turn):
            for index, message in enumerate(turn.new):
                other = Turn(turn.name, turn.assistant, turn.altered(index))
                changed = _bridge(resolved, prompt, sampled, other)
                if isinstance(changed, RenderedTokens):
                    where = f"new message {index} ({message['role']})"
                    assert changed.token_ids != out.token_ids, f"{where} doesn't show in the delta"

    @pytest.mark.parametrize("turn", TURNS, **by_name)
    def test_the_delta_is_that_of_a_full_render(self, resolved: ResolvedRenderer, turn: Turn) -> None:
        self._need("bridges", *turn.needs)
        for prompt, sampled, out in self._bridged(resolved, turn):
            self._check_delta(resolved, self._oracle(resolved), turn, prompt, sampled, out)

    def test_generated_turns_keep_the_contract(self, resolved: ResolvedRenderer) -> None:
        self._need("bridges")
        oracle = self._oracle(resolved)
        closes = sorted(self._control_ids(resolved))[-16:]

        @self._settings
        @given(script.turns(type(self)), st.data())
        def check(turn: Turn, data: st.DataObject) -> None:
            for prompt, sampled in self._completions(resolved, turn):
                out = _bridge(resolved, prompt, sampled, turn)
                if isinstance(out, RenderedTokens):
                    self._check_delta(resolved, oracle, turn, prompt, sampled, out)
                    index = data.draw(st.integers(0, len(turn.new) - 1))
                    other = _bridge(resolved, prompt, sampled, Turn("altered", turn.assistant, turn.altered(index)))
                    if isinstance(other, RenderedTokens):
                        assert other.token_ids != out.token_ids, f"new message {index} doesn't show in the delta"
                odd = data.draw(token_lists(closes, sampled))
                _bridge(resolved, prompt, data.draw(st.sampled_from([odd, [*odd, *sampled[-1:]], sampled + odd])), turn)

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

    def _control_ids(self, resolved: ResolvedRenderer) -> frozenset[int]:
        return control_ids(resolved.tokenizer) | frozenset(resolved.get_stop_token_ids())

    def _oracle(self, resolved: ResolvedRenderer) -> SeamBridge:
        """The seam over full renders: what the same renderer puts after a turn's close."""
        return SeamBridge(
            lambda messages, tools: resolved.render_ids(messages, tools=tools, add_generation_prompt=True),
            resolved.get_stop_token_ids(),
            self._control_ids(resolved),
        )

    def _completions(self, resolved: ResolvedRenderer, turn: Turn) -> Iterator[tuple[list[int], list[int]]]:
        """P and C as the turn would have been sampled, with each stop where the format closes nothing itself."""
        prompt = resolved.render_ids(OPENING, tools=turn.tools, add_generation_prompt=True)
        message = {**turn.assistant, **({"reasoning_content": script.REASONING} if self.reasoning else {})}
        try:
            whole = resolved.render_ids([*OPENING, message], tools=turn.tools)
        except RendererError as error:
            pytest.skip(f"the renderer can't end a conversation with an assistant turn: {error}")
        sampled = whole[_common(prompt, whole) :]
        stops = resolved.get_stop_token_ids()
        at = max((index for index, token in enumerate(sampled) if token in stops), default=None)
        if at is not None:
            yield prompt, sampled[: at + 1]
        else:
            yield from ((prompt, [*sampled, stop]) for stop in stops)

    def _bridged(self, resolved: ResolvedRenderer, turn: Turn) -> list[tuple[list[int], list[int], RenderedTokens]]:
        found = []
        reason = "there is no completion to bridge"
        for prompt, sampled in self._completions(resolved, turn):
            out = _bridge(resolved, prompt, sampled, turn)
            if isinstance(out, RenderedTokens):
                found.append((prompt, sampled, out))
            else:
                reason = out.reason
        if not found:
            pytest.skip(f"declined: {reason}")
        return found

    def _check_delta(
        self,
        resolved: ResolvedRenderer,
        oracle: SeamBridge,
        turn: Turn,
        prompt: list[int],
        sampled: list[int],
        out: RenderedTokens,
    ) -> None:
        """Against the conversation rendered as a whole, and against the seam where it proves a bridge."""
        delta = out.token_ids[len(prompt) + len(sampled) :]
        whole = resolved.render_ids([*OPENING, turn.assistant, *turn.new], tools=turn.tools, add_generation_prompt=True)
        behind, before = whole[len(whole) - len(delta) :], whole[: len(whole) - len(delta)]
        assert delta == behind, "the delta isn't how the whole conversation, rendered, ends"
        closes = self._control_ids(resolved)
        assert not self.stop_token or before[-1] in closes, "the delta doesn't start right behind the turn's close"
        try:
            proven = oracle.bridge_to_next_turn(
                prompt,
                sampled,
                normalize_messages(turn.new),
                tools=normalize_tools(turn.tools),
                previous_message=normalize_messages([turn.assistant])[0],
            )
        except BridgeDeclined:
            return
        assert delta == proven.token_ids[len(prompt) + len(sampled) :], "the delta differs from what the seam proves"

    def _jobs(self, resolved: ResolvedRenderer, on: Any) -> list[Callable[[], Any]]:
        """Calls of everything on ``on``, which is ``resolved``, its copy or its bare renderer."""
        jobs: list[Callable[[], Any]] = []
        for each in self._able(CONVERSATIONS):
            messages, tools = normalize_messages(each.messages), normalize_tools(each.tools)
            jobs.append(lambda m=messages, t=tools: on.render(m, tools=t, add_generation_prompt=True).token_ids)
            jobs.append(lambda m=messages, t=tools: on.render_ids(m, tools=t))
        for turn in self._able(TURNS):
            new, tools = normalize_messages(turn.new), normalize_tools(turn.tools)
            previous = normalize_messages([turn.assistant])[0]
            for prompt, sampled in self._completions(resolved, turn):
                jobs.append(lambda p=prompt, c=sampled, t=tools: on.parse_response(c, tools=t, prompt_ids=p))
                jobs.append(lambda p=prompt, c=sampled, n=new, t=tools, m=previous: _ids_of(on, p, c, n, t, m))
        return jobs


def _bridge(resolved: ResolvedRenderer, prompt: list[int], sampled: list[int], turn: Turn) -> RenderedTokens | BridgeDeclined:
    """A bridge, checked: P + C and more, or declined, never a third outcome."""
    out = resolved.try_bridge(prompt, sampled, turn.new, tools=turn.tools, previous_message=turn.assistant)
    if isinstance(out, BridgeDeclined):
        assert not isinstance(out.__cause__, ContractError), f"the bridge contract is broken: {out.__cause__}"
        return out
    start = prompt + sampled
    assert out.token_ids[: len(start)] == start, "a bridge must start with P + C, id for id"
    assert len(out.token_ids) > len(start), "a bridge must add to P + C"
    if out.sampled_mask is not None:
        assert len(out.sampled_mask) == len(out.token_ids)
        assert True not in out.sampled_mask[len(start) :], "nothing of a delta was sampled"
    if out.message_indices is not None:
        assert len(out.message_indices) == len(out.token_ids)
        known = {None, *range(-1, len(turn.new))}
        assert known.issuperset(out.message_indices[len(start) :]), "message_indices of a delta count the new messages"
    return out


def _bare_bridge(resolved: ResolvedRenderer, *given_: Any) -> list[int] | str:
    prompt, sampled, new, tools, previous = given_
    return _ids_of(resolved.upstream, prompt, sampled, new, tools, previous)


def _ids_of(on: Any, prompt: Any, sampled: Any, new: Any, tools: Any, previous: Any) -> list[int] | str:
    try:
        out = on.bridge_to_next_turn(prompt, sampled, new, tools=tools, previous_message=previous)
    except RendererError as error:
        return f"{type(error).__name__}: {error}"
    return "None" if out is None else list(out.token_ids)


def _check_attribution(out: RenderedTokens, roles: list[str]) -> None:
    indices, mask = out.message_indices, out.sampled_mask
    if indices is not None:
        assert len(indices) == len(out.token_ids)
        assert {None, *range(-1, len(roles))}.issuperset(indices), "message_indices must be -1 or the index of a message"
    if mask is not None:
        assert len(mask) == len(out.token_ids)
        for index, sampled in zip(indices or (), mask, strict=False):
            assert not sampled or index is None or (index >= 0 and roles[index] == "assistant"), "only assistants sample"


def _check_parsed(parsed: Any) -> None:
    assert isinstance(parsed, ParsedResponse)
    assert isinstance(parsed.content, str)
    assert parsed.reasoning_content is None or isinstance(parsed.reasoning_content, str)
    assert isinstance(parsed.termination, Termination)
    for call in parsed.tool_calls:
        assert isinstance(call, ToolCall)
        assert call.name or call.status is not ToolCallStatus.OK, "a call without a name can't be OK"


def _check_threads(jobs: list[Callable[[], Any]]) -> None:
    serial = [job() for job in jobs]
    with ThreadPoolExecutor(16) as pool:
        for _ in range(3):
            parallel = list(pool.map(lambda job: job(), jobs))
            assert parallel == serial, "16 threads give other results than one"


def _markers(resolved: ResolvedRenderer) -> dict[str, int]:
    """Control tokens that a plain conversation shows."""
    seen = set(resolved.render_ids([*OPENING, script.TEXT, script.user("And lids?")]))
    return {text: token for text, token in added_tokens(resolved.tokenizer).items() if token in seen}


def _fate(resolved: ResolvedRenderer, messages: list[dict[str, Any]], text: str, token: int) -> str:
    """What becomes of a control token's text in the last message."""
    tools = TOOLS if len(messages) > 1 else None
    counts = []
    for content in ("say it twice", f"say {text} twice"):
        try:
            ids = resolved.render_ids([*messages[:-1], {**messages[-1], "content": content}], tools=tools)
        except RendererError:
            return "refused"
        counts.append(ids.count(token))
    return "control" if counts[1] > counts[0] else "text"


def _common(one: Any, other: Any) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
