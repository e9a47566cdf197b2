"""Checks of rendering: ids, attribution, a reference, and that all forms of messages and tools mean the same."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from ..errors import RendererError
from ..normal_form.messages import normalize_messages
from ..renderer.resolved import ResolvedRenderer
from ..types import ToolCall, ToolSpec
from . import turns as script
from .capabilities import Capabilities, by_name
from .checks import check_attribution, fate, markers
from .turns import CONVERSATIONS, OPENING, Conversation, declared_tools


class RenderingChecks(Capabilities):
    """Checks of ``render`` and ``render_ids``."""

    @pytest.mark.parametrize("conversation", CONVERSATIONS, **by_name)
    def test_render_gives_ids_with_attribution(self, resolved: ResolvedRenderer, conversation: Conversation) -> None:
        conversation = self._fitting(conversation)
        for opener in (False, True):
            out = resolved.render(conversation.messages, tools=conversation.tools, add_generation_prompt=opener)
            ids = resolved.render_ids(conversation.messages, tools=conversation.tools, add_generation_prompt=opener)
            assert out.token_ids == ids, "render and render_ids differ"
            assert ids and all(type(token) is int for token in ids), "ids must be a non-empty list of int"
            check_attribution(out, [message["role"] for message in conversation.messages])

    def test_every_message_shows_in_the_ids(self, resolved: ResolvedRenderer) -> None:
        for conversation in self._able(CONVERSATIONS):
            ids = resolved.render_ids(conversation.messages, tools=conversation.tools)
            for index, message in enumerate(conversation.messages):
                if message["content"]:
                    changed = resolved.render_ids(conversation.altered(index).messages, tools=conversation.tools)
                    assert changed != ids, f"{conversation.name}: message {index} ({message['role']}) doesn't show"

    def test_declarations_show_or_are_refused(self, resolved: ResolvedRenderer) -> None:
        def ids(tools: Any) -> list[int]:
            return list(resolved.upstream.render_ids(normalize_messages(OPENING), tools=tools, add_generation_prompt=True))

        if not self.declarations:
            with pytest.raises(RendererError):
                ids(declared_tools())
            return
        for index in range(2):
            other = declared_tools()
            other[index]["function"]["name"] = "zq9"
            assert ids(other) != ids(declared_tools()), f"the declaration of tool {index} doesn't show, and isn't refused"

    @pytest.mark.parametrize("conversation", CONVERSATIONS, **by_name)
    def test_render_equals_the_reference(self, resolved: ResolvedRenderer, conversation: Conversation) -> None:
        conversation = self._fitting(conversation)
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
        self._need("calls")
        tools = declared_tools() if self.declarations else None
        turn = {key: value for key, value in script.ONE_CALL.items() if key != "content"}
        expected = resolved.render_ids([*OPENING, script.ONE_CALL], tools=tools)
        assert resolved.render_ids([*OPENING, {**turn, **blank}], tools=tools) == expected

    def test_text_parts_are_joined(self, resolved: ResolvedRenderer) -> None:
        parts = [{"type": "text", "text": "How many "}, {"type": "text", "text": "apples?"}]
        assert resolved.render_ids([script.SYSTEM, {"role": "user", "content": parts}]) == resolved.render_ids(OPENING)

    @pytest.mark.parametrize("form", ["mapping", "flat", "object", "ToolCall"])
    def test_calls_have_one_meaning_in_all_forms(self, resolved: ResolvedRenderer, form: str) -> None:
        self._need("calls")
        tools = declared_tools() if self.declarations else None
        call = script.call("look", 0)
        text = call["function"]["arguments"]
        other: Any = {
            "mapping": {**call, "function": {"name": "look", "arguments": script.ARGUMENTS}},
            "flat": {"id": "call_0", "name": "look", "arguments": text},
            "object": SimpleNamespace(id="call_0", function=SimpleNamespace(name="look", arguments=text)),
            "ToolCall": ToolCall("look", text, id="call_0"),
        }[form]
        expected = resolved.render_ids([*OPENING, script.assistant("", call)], tools=tools)
        assert resolved.render_ids([*OPENING, script.assistant("", other)], tools=tools) == expected

    def test_tools_have_one_meaning_in_all_forms(self, resolved: ResolvedRenderer) -> None:
        self._need("declarations")
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
            if where == "tool" and not (self.declarations and self.calls and self.results):
                continue
            found = sorted({fate(resolved, messages, text, token) for text, token in texts.items()})
            request.node.user_properties.append((f"marker text in {where} content", " or ".join(found)))
            if self.marker_text is not None:
                assert found == [self.marker_text], f"marker text in {where} content: declared {self.marker_text!r}"

    def test_literal_text_writes_no_control_id(self, resolved: ResolvedRenderer) -> None:
        self._need("literal_text")
        texts = markers(resolved)
        if not texts or not resolved.resolution.plugin:
            pytest.skip("needs a tokenizer with control tokens, and a backend that is given it: what resolve returns")
        literal = resolved.with_marker_text("literal")
        for text, token in texts.items():
            assert fate(literal, OPENING[-1:], text, token) == "text", f"{text!r} in a user's text became a control id"
