"""What goes into a render shows in what comes out, or an error names it: learned once a shape, for every backend."""

from __future__ import annotations

import warnings

import pytest
import real_tokenizers
import shapes
from rllm_renderer_training import Rollout
from toy import ToyRenderer, ToyTokenizer, decode

from rllm_renderer_core import BridgeDeclined, MessageError, RendererWarning, UnsupportedToolsError, resolve
from rllm_renderer_core.guards.nothing_dropped.dropped import MOST_REPEATS
from rllm_renderer_core.testing import wrap

USER = {"role": "user", "content": "How many?"}
SYSTEM = {"role": "system", "content": "Be brief."}
DEVELOPER = {"role": "developer", "content": "Be kind."}
TALK = [SYSTEM, USER, {"role": "assistant", "content": "four"}, USER]


class Decoding(ToyTokenizer):
    def decode(self, ids, **options):
        return decode(ids)


class Forgetful(ToyRenderer):
    """Leaves out what ``forgets`` says: roles, ``"calls"``, ``"second calls"`` or ``"tools"``."""

    def __init__(self, *forgets, tokenizer=None):
        super().__init__(tokenizer)
        self.forgets, self.renders = forgets, 0

    def render(self, messages, *, tools=None, add_generation_prompt=False):
        self.renders += 1
        kept = [message for message in messages if message["role"] not in self.forgets]
        return super().render(
            kept, tools=None if "tools" in self.forgets else tools, add_generation_prompt=add_generation_prompt
        )

    def body(self, message):
        calls = message.get("tool_calls") or ()
        kept = () if "calls" in self.forgets else calls[:1] if "second calls" in self.forgets else calls
        return super().body({**message, "tool_calls": kept})


@pytest.fixture(params=[Decoding(), ToyTokenizer()], ids=["by decoding", "without decode"])
def tokenizer(request):
    return request.param


def test_a_dropped_message_is_an_error_that_names_it(tokenizer):
    renderer = wrap(Forgetful("developer"), tokenizer)
    for method in (renderer.render, renderer.render_ids):
        with pytest.raises(MessageError, match=r"message 1 \(developer\): its text doesn't show") as caught:
            method([SYSTEM, DEVELOPER, USER])
        assert caught.value.index == 1 and "dropped='warn'" in caught.value.fix
    assert renderer.render_ids([SYSTEM, USER])


def test_a_dropped_declaration_is_an_error(tokenizer):
    renderer = wrap(Forgetful("tools"), tokenizer)
    with pytest.raises(UnsupportedToolsError, match="tool 0 doesn't show"):
        renderer.render_ids([USER], tools=shapes.TOOLS)
    assert renderer.render_ids([USER])


@pytest.mark.parametrize(("forgets", "at"), [("calls", 0), ("second calls", 1)])
def test_a_dropped_call_is_an_error(tokenizer, forgets, at):
    calls = [shapes.call("look", "c0"), shapes.call("look", "c1")]
    turn = {"role": "assistant", "content": "", "tool_calls": calls}
    with pytest.raises(MessageError, match=rf"message 1 \(assistant\): the name of its tool call {at} doesn't show") as caught:
        wrap(Forgetful(forgets), tokenizer).render_ids([USER, turn])
    assert caught.value.index == 1


def test_warn_says_it_once_and_renders_without_it(no_plugins, install, tokenizer):
    bare = Forgetful("developer")
    renderer = wrap(bare, tokenizer)
    renderer.resolution.options["dropped"] = "warn"
    again = type(renderer)(*renderer._made_of[:3], renderer.resolution)
    with pytest.warns(RendererWarning, match=r"dropped='warn': message 0 \(developer\)"):
        ids = again.render_ids([DEVELOPER, USER])
    assert ids == bare.render_ids([USER])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert again.render_ids([DEVELOPER, USER]) == ids
    with pytest.raises(MessageError, match="message 0"):
        Rollout(again).begin([DEVELOPER, USER])


def test_a_rollout_that_renders_again_never_goes_on_without_a_message():
    class Declining(Forgetful):
        def bridge_to_next_turn(self, *args, **kwargs):
            return None

    rollout = Rollout(wrap(Declining("developer"), Decoding()))
    rollout.begin([SYSTEM, USER])
    rollout.record([104, 6])
    with pytest.raises(MessageError, match=r"message 3 \(developer\)"):
        rollout.extend([DEVELOPER])


@pytest.fixture
def bridged(tokenizer):
    """A renderer whose bridge leaves out what developers say, and how often it was asked."""

    class Leaves(Forgetful):
        bridges = 0

        def bridge_to_next_turn(self, prompt, completion, new, **more):
            self.bridges += 1
            kept = [message for message in new if message["role"] not in self.forgets] or [USER]
            return super().bridge_to_next_turn(prompt, completion, kept, **more)

    bare = Leaves("developer")
    renderer = wrap(bare, tokenizer)
    prompt = renderer.render_ids([SYSTEM, USER], add_generation_prompt=True)
    turn = renderer.render_ids([SYSTEM, USER, {"role": "assistant", "content": "four"}])[len(prompt) :]
    stop = next(at for at, each in enumerate(turn) if each in renderer.get_stop_token_ids())

    def bridge(*new):
        return renderer.try_bridge(prompt, turn[: stop + 1], list(new))

    return bare, bridge


def test_a_bridge_that_drops_a_message_is_declined_and_says_which(bridged):
    _, bridge = bridged
    out = bridge(USER, DEVELOPER)
    assert isinstance(out, BridgeDeclined)
    assert "new message 1 (developer): its text doesn't show" in out.reason
    assert not isinstance(bridge(USER, USER), BridgeDeclined)


def test_a_shape_of_new_messages_is_learned_with_one_more_bridge(bridged, tokenizer):
    bare, bridge = bridged
    bridge(USER)
    learned = bare.bridges
    bridge({**USER, "content": "And lids?"})
    assert bare.bridges == learned + 1
    assert learned == 2 or not hasattr(tokenizer, "decode")


def test_a_shape_is_learned_once_with_one_render():
    bare = Forgetful(tokenizer=Decoding())
    renderer = wrap(bare, bare.tokenizer)
    renderer.render_ids(TALK)
    assert bare.renders == 2
    renderer.render_ids([{**message, "content": message["content"] + " More."} for message in TALK])
    assert bare.renders == 3


def test_repeated_rounds_are_one_shape():
    bare = Forgetful(tokenizer=Decoding())
    renderer = wrap(bare, bare.tokenizer)

    def rounds(count):
        out = [SYSTEM, USER]
        for at in range(count):
            out.append({"role": "assistant", "content": "", "tool_calls": [shapes.call("look", f"c{at}")]})
            out.append(shapes.result("look", f"c{at}", "five"))
        return out

    for count in range(12):
        renderer.render_ids(rounds(count))
    assert bare.renders == 12 + 1 + MOST_REPEATS


def test_the_index_is_that_of_the_whole_list():
    bare = Forgetful("developer", tokenizer=Decoding())
    long = [SYSTEM, *[USER, {"role": "assistant", "content": "four"}] * 20, DEVELOPER, USER]
    with pytest.raises(MessageError, match=r"message 41 \(developer\)"):
        wrap(bare, bare.tokenizer).render_ids(long)


def test_reasoning_that_a_format_drops_is_no_loss():
    class NoReasoning(ToyRenderer):
        def body(self, message):
            return super().body({key: value for key, value in message.items() if key != "reasoning_content"})

    turn = {"role": "assistant", "content": "four", "reasoning_content": "why"}
    assert wrap(NoReasoning(), Decoding()).render_ids([USER, turn, USER])


CALL = {"role": "assistant", "content": "", "tool_calls": [shapes.call("look", "functions.look:0")]}
ORPHAN = {"role": "tool", "tool_call_id": "c9", "name": "look", "content": "five"}
REAL = [
    ("developer", "Qwen/Qwen3-8B", [DEVELOPER, USER], None, r"message 0 \(developer\)"),
    ("developer", "zai-org/GLM-5", [SYSTEM, DEVELOPER, USER], None, r"message 1 \(developer\)"),
    ("developer", "deepseek-ai/DeepSeek-V3.1", [DEVELOPER, USER], None, r"message 0 \(developer\)"),
    ("second system", "openai/gpt-oss-20b", [*TALK, SYSTEM, USER], None, r"message 4 \(system\)"),
    ("second system", "MiniMaxAI/MiniMax-M2.7", [SYSTEM, SYSTEM, USER], None, r"message 1 \(system\)"),
    ("orphan result", "google/gemma-4-E2B-it", [USER, ORPHAN], None, r"message 1 \(tool\)"),
    ("declarations", "deepseek-ai/DeepSeek-V3", [USER], shapes.TOOLS, "tool 0"),
    ("declarations", "deepseek-ai/DeepSeek-V3.1", [USER], shapes.TOOLS, "tool 0"),
    ("declarations", "google/gemma-3-4b-it", [USER], shapes.TOOLS, "tool 0"),
]


@pytest.mark.parametrize(
    ("model", "messages", "tools", "named"), [each[1:] for each in REAL], ids=[f"{e[0]} {e[1]}" for e in REAL]
)
def test_what_official_templates_drop_is_an_error(model, messages, tools, named):
    reason = real_tokenizers.missing(model)
    if reason:
        pytest.skip(reason)
    renderer = resolve(model, real_tokenizers.load(model), backend="chat-template")
    with pytest.raises((MessageError, UnsupportedToolsError), match=f"{named}.* doesn't show"):
        renderer.render_ids(messages, tools=tools, add_generation_prompt=True)
    as_the_template = resolve(model, real_tokenizers.load(model), backend="chat-template", dropped="warn")
    with pytest.warns(RendererWarning, match="dropped='warn'"):
        ids = as_the_template.render_ids(messages, tools=tools, add_generation_prompt=True)
    text_of = shapes.template_text(real_tokenizers.load(model))
    assert ids == shapes.encode(real_tokenizers.load(model), text_of(messages, tools, True))
    assert as_the_template.resolution.options["dropped"] == "warn"


def test_prime_deepseek_v3():
    pytest.importorskip("renderers")
    reason = real_tokenizers.missing("deepseek-ai/DeepSeek-V3")
    if reason:
        pytest.skip(reason)
    renderer = resolve("deepseek-ai/DeepSeek-V3", real_tokenizers.load("deepseek-ai/DeepSeek-V3"), backend="prime")
    with pytest.raises(UnsupportedToolsError, match="tool 0"):
        renderer.render_ids([USER], tools=shapes.TOOLS, add_generation_prompt=True)
    assert renderer.render_ids([USER, CALL, {**ORPHAN, "tool_call_id": "functions.look:0"}], add_generation_prompt=True)


class KnowsCallsByTheirId(ToyRenderer):
    """As Kimi's format: a call's name shows where its id has it."""

    def body(self, message):
        calls = [{**each, "function": {**each["function"], "name": each["id"]}} for each in message.get("tool_calls") or ()]
        return super().body({**message, "tool_calls": calls})


def test_a_call_is_known_by_an_id_but_by_no_empty_one():
    renderer = wrap(KnowsCallsByTheirId(), Decoding())

    def called(call_id):
        call = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}
        return renderer.render_ids([USER, {"role": "assistant", "content": "", "tool_calls": [call]}])

    assert called("call_7") and called("functions.look:0")
    with pytest.raises(MessageError, match="the name of its tool call 0 doesn't show") as caught:
        called("")
    assert caught.value.index == 1 and called("call_7")
