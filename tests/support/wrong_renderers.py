"""Renderers that are wrong on purpose, each with the suite over it; run by test_conformance.py in a pytest of its own."""

from __future__ import annotations

import random
import threading
import time

import pytest
from hypothesis import Phase, settings
from rllm_renderer_template import SeamBridge
from toy import ASSISTANT, END, FIRST, SYSTEM, ToyRenderer, decode, encode

from rllm_renderer_core import RenderedTokens, UnsupportedToolsError
from rllm_renderer_core.testing import RendererConformance


class Wrong(RendererConformance):
    oracle = SeamBridge
    examples = 15
    make: type[ToyRenderer]

    @property
    def _settings(self):
        return settings(super()._settings, phases=[Phase.generate])  # nobody reads these examples: no shrinking

    @pytest.fixture
    def renderer(self):
        return self.make()


class Bridge(ToyRenderer):
    """``tamper`` sees what the right bridge returns, and its arguments."""

    def tamper(self, ids, prompt, sampled, new, previous):
        raise NotImplementedError

    def bridge_to_next_turn(self, prompt, sampled, new, *, tools=None, previous_message=None):
        out = super().bridge_to_next_turn(prompt, sampled, new, tools=tools)
        return None if out is None else RenderedTokens(self.tamper(out.token_ids, prompt, sampled, new, previous_message))


class TestDropsATokenOfTheDelta(Wrong):
    class make(Bridge):
        def tamper(self, ids, prompt, sampled, new, previous):
            return [*prompt, *sampled, *ids[len(prompt) + len(sampled) + 1 :]]


class TestDropsATokenOfThePrompt(Wrong):
    class make(Bridge):
        def tamper(self, ids, prompt, sampled, new, previous):
            return ids[:3] + ids[4:]


class TestEncodesTheCompletionAgain(Wrong):
    class make(Bridge):
        def tamper(self, ids, prompt, sampled, new, previous):
            return [*prompt, *encode(decode(sampled)), END, *ids[len(prompt) + len(sampled) :]]


class TestEncodesThePromptAgainInPlace(Wrong):
    class make(Bridge):
        def tamper(self, ids, prompt, sampled, new, previous):
            delta = ids[len(prompt) + len(sampled) :]
            prompt[:] = encode(decode(prompt))
            return [*prompt, *sampled, *delta]


class TestLosesAToolResult(Wrong):
    class make(Bridge):
        def bridge_to_next_turn(self, prompt, sampled, new, *, tools=None, previous_message=None):
            results = [message for message in new if message["role"] == "tool"]
            return ToyRenderer.bridge_to_next_turn(self, prompt, sampled, [m for m in new if m not in results[1:]])


class TestRendersAssistantTextAgain(Wrong):
    class make(Bridge):
        def tamper(self, ids, prompt, sampled, new, previous):
            again = [ASSISTANT, *self.body(previous), END, FIRST + ord("\n")] if previous else []
            return [*prompt, *sampled, *again, *ids[len(prompt) + len(sampled) :]]


class TestBridgesWithoutOpener(Wrong):
    class make(Bridge):
        def tamper(self, ids, prompt, sampled, new, previous):
            return ids[:-1]


class TestAddsASecondSystemBlock(Wrong):
    class make(Bridge):
        def tamper(self, ids, prompt, sampled, new, previous):
            at = len(prompt) + len(sampled) + 1
            return [*ids[:at], SYSTEM, *encode("You help."), END, FIRST + ord("\n"), *ids[at:]]


class TestNeverBridges(Wrong):
    class make(ToyRenderer):
        def bridge_to_next_turn(self, *args, **kwargs):
            return None


class TestBridgesUndeclared(Wrong):
    bridges = False
    make = ToyRenderer


class TestChangesMessages(Wrong):
    class make(ToyRenderer):
        def render(self, messages, *, tools=None, add_generation_prompt=False):
            for message in messages:
                message["content"] = message["content"].strip()
                message.setdefault("name", "x")
            return super().render(messages, tools=tools, add_generation_prompt=add_generation_prompt)


class TestChangesToolsDeepInside(Wrong):
    class make(ToyRenderer):
        def render(self, messages, *, tools=None, add_generation_prompt=False):
            for tool in tools or ():
                tool["function"]["parameters"].pop("required", None)
            return super().render(messages, tools=tools, add_generation_prompt=add_generation_prompt)


class TestExtendsThePromptInPlace(Wrong):
    class make(ToyRenderer):
        def bridge_to_next_turn(self, prompt, sampled, new, *, tools=None, previous_message=None):
            out = super().bridge_to_next_turn(prompt, sampled, new)
            prompt.extend(sampled)
            return out


class TestNeverTheSameTwice(Wrong):
    class make(ToyRenderer):
        def render(self, messages, *, tools=None, add_generation_prompt=False):
            out = super().render(messages, tools=tools, add_generation_prompt=add_generation_prompt)
            return RenderedTokens([*out.token_ids, random.randrange(10**9)])


class TestSharesABuffer(Wrong):
    needs_no_lock = True

    class make(ToyRenderer):
        def __init__(self):
            super().__init__()
            self.buffer = []

        def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
            self.buffer.clear()
            for token in self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt).token_ids:
                self.buffer.append(token)
                time.sleep(0)  # lets another thread in, so that the fault shows each time
            return list(self.buffer)


class TestBelongsToOneThread(Wrong):
    class make(ToyRenderer):
        def __init__(self):
            super().__init__()
            self.thread = threading.get_ident()

        def render(self, messages, *, tools=None, add_generation_prompt=False):
            assert threading.get_ident() == self.thread, "made in another thread"
            return super().render(messages, tools=tools, add_generation_prompt=add_generation_prompt)


class TestCrashesInParse(Wrong):
    class make(ToyRenderer):
        def parse_response(self, token_ids, *, tools=None, prompt_ids=None):
            "".join(chr(token - FIRST) for token in token_ids if token > 12)
            return super().parse_response(token_ids)


class TestParsesToATuple(Wrong):
    class make(ToyRenderer):
        def parse_response(self, token_ids, *, tools=None, prompt_ids=None):
            return {"content": decode(token_ids)}, True


class TestLosesTheTextInParse(Wrong):
    class make(ToyRenderer):
        def parse_response(self, token_ids, *, tools=None, prompt_ids=None):
            out = super().parse_response(token_ids)
            out.content = ""
            return out


class TestCannotBePickled(Wrong):
    class make(ToyRenderer):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()


class TestForgetsAnOptionInPickling(Wrong):
    class make(ToyRenderer):
        role = SYSTEM

        def __init__(self):
            super().__init__()
            self.polite = True

        def __reduce__(self):
            return _forgetful, ()

        def body(self, message):
            return super().body(message) + (encode(" please") if self.polite and message["role"] == "user" else [])


def _forgetful():
    renderer = TestForgetsAnOptionInPickling.make()
    renderer.polite = False
    return renderer


class TestDropsTheSystemMessage(Wrong):
    class make(ToyRenderer):
        def render(self, messages, *, tools=None, add_generation_prompt=False):
            kept = [message for message in messages if message["role"] != "system"]
            return super().render(kept, tools=tools, add_generation_prompt=add_generation_prompt)


class TestStopsAreText(Wrong):
    class make(ToyRenderer):
        def get_stop_token_ids(self):
            return ["<end>"]


class TestClosesNothing(Wrong):
    class make(ToyRenderer):
        def get_stop_token_ids(self):
            return [77]


class TestAttributesTooLittle(Wrong):
    class make(ToyRenderer):
        def render(self, messages, *, tools=None, add_generation_prompt=False):
            out = super().render(messages, tools=tools, add_generation_prompt=add_generation_prompt)
            return RenderedTokens(out.token_ids, [-1] * len(out.token_ids), [True] * len(out.token_ids))


class TestDropsCalls(Wrong):
    class make(ToyRenderer):
        def body(self, message):
            return super().body({key: value for key, value in message.items() if key != "tool_calls"})


class TestDiffersFromItsReference(Wrong):
    make = ToyRenderer

    def reference(self, messages, tools, add_generation_prompt):
        return [*ToyRenderer().render_ids(messages, tools=tools, add_generation_prompt=add_generation_prompt), 0]


class TestTurnsMarkersIntoControlTokens(Wrong):
    marker_text = "text"

    class make(ToyRenderer):
        def body(self, message):
            head, *rest = message["content"].split("<end>")
            ids = super().body({**message, "content": head})
            for part in rest:
                ids += [END, *encode(part)]
            return ids


class IgnoresDeclarations(ToyRenderer):
    def render(self, messages, *, tools=None, add_generation_prompt=False):
        return super().render(messages, add_generation_prompt=add_generation_prompt)


class TestIgnoresDeclarations(Wrong):
    make = IgnoresDeclarations


class TestIgnoresDeclarationsDeclared(Wrong):
    declarations = False
    make = IgnoresDeclarations


class TestRefusesDeclarations(Wrong):
    """Nothing is wrong with it: what it has no place for is refused, and declared."""

    declarations = False

    class make(ToyRenderer):
        def render(self, messages, *, tools=None, add_generation_prompt=False):
            if tools:
                raise UnsupportedToolsError("no place for tools")
            return super().render(messages, add_generation_prompt=add_generation_prompt)


class TestDeclaresLittle(Wrong):
    """Nothing is wrong with it: what isn't declared is skipped."""

    make = ToyRenderer
    calls = results = parallel_calls = system_in_new = users_in_a_row = reasoning = stop_token = False
