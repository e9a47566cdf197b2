"""A completion with calls that don't parse: the others run, all may be answered, and the bridge goes on where it can."""

from __future__ import annotations

import pytest
import real_tokenizers
from rllm_renderer_training import Rollout, RolloutError
from toy import ARGS, CALL, END, UNCALL, ToyRenderer, encode

from rllm_renderer_core import RenderError, ToolCallStatus, resolve
from rllm_renderer_core.testing import wrap

OPENING = [{"role": "user", "content": "How many?"}]
TOOLS = [{"name": "look", "parameters": {"type": "object"}}, {"name": "count", "parameters": {"type": "object"}}]


def call(name, arguments):
    return [CALL, *encode(name), ARGS, *encode(arguments), UNCALL]


OK = call("look", '{"q": 1}')
BROKEN = call("count", '{"q": ')
NAMELESS = [CALL, ARGS, *encode("{}"), UNCALL]


def answers(parsed):
    return [
        {
            "role": "tool",
            "tool_call_id": each.id,
            "content": "5" if each.status is ToolCallStatus.OK else f"error: {each.status}",
        }
        for each in parsed.tool_calls
    ]


def started(renderer, completion):
    rollout = Rollout(renderer)
    rollout.begin(OPENING, tools=TOOLS)
    return rollout, rollout.record(completion)


@pytest.mark.parametrize(
    "completion", [[*OK, *BROKEN, END], [*BROKEN, *OK, END], [*BROKEN, END]], ids=["behind", "before", "alone"]
)
def test_a_broken_call_beside_others_is_answered_and_bridged(completion):
    rollout, parsed = started(wrap(ToyRenderer()), completion)
    assert [each.name for each in parsed.runnable] == ["look"] * (OK[1] in completion and len(parsed.tool_calls) - 1)
    prompt = rollout.prompt_ids
    after = rollout.extend(answers(parsed))
    assert rollout.declines == [] and after[: len(prompt) + len(completion)] == prompt + completion
    results = [ToyRenderer().body({"role": "tool", "name": each.name, "content": each_answer["content"]})
               for each, each_answer in zip(parsed.tool_calls, answers(parsed), strict=True)]  # fmt: skip
    text = ",".join(map(str, after[len(prompt) + len(completion) :]))
    assert all(",".join(map(str, result)) in text for result in results)


def test_two_results_are_named_by_their_own_calls():
    seen = []

    class Watching(ToyRenderer):
        def bridge_to_next_turn(self, prompt, completion, new, *, tools=None, previous_message=None):
            seen.append([message["name"] for message in new])
            return super().bridge_to_next_turn(prompt, completion, new)

    rollout, parsed = started(wrap(Watching()), [*OK, *BROKEN, END])
    rollout.extend(answers(parsed))
    assert seen and all(names == ["look", "count"] for names in seen)


def test_a_call_without_a_name_is_bridged_where_the_format_does_not_show_names():
    class Nameless(ToyRenderer):
        def body(self, message):
            return super().body({**message, "name": "tool"} if message["role"] == "tool" else message)

    for renderer, declined in ((Nameless(), False), (ToyRenderer(), True)):
        rollout, parsed = started(wrap(renderer), [*OK, *NAMELESS, END])
        assert [each.name for each in parsed.tool_calls] == ["look", ""]
        rollout.extend(answers(parsed))
        assert bool(rollout.declines) is declined
        if declined:
            assert rollout.declines[0].reason == "the format shows which call a result answers, and that call has no name"
            assert rollout.segments[0].sampled_count == len([*OK, *NAMELESS, END]) and rollout.segments[1].sampled_count == 0


def test_what_can_neither_be_bridged_nor_rendered_says_what_to_do():
    class Strict(ToyRenderer):
        def render(self, messages, **more):
            results = [each for each in messages if each["role"] == "tool"]
            known = {call["id"] for each in messages for call in each.get("tool_calls") or ()}
            if any(each.get("tool_call_id") not in known for each in results):
                raise KeyError("a result without its call")
            return super().render(messages, **more)

        def bridge_to_next_turn(self, *args, **kwargs):
            return None

    rollout, parsed = started(wrap(Strict()), [*OK, *BROKEN, END])
    with pytest.raises(RolloutError, match="answer it with a user message that says what was wrong"):
        rollout.extend(answers(parsed))
    with pytest.raises(RenderError):  # an error of its own stays what it is
        rollout.extend([{"role": "tool", "tool_call_id": "other", "content": "5"}])
    rollout.extend([{"role": "user", "content": "The second call isn't JSON."}])
    assert len(rollout.segments) == 2


def test_the_advice_bridges(capsys):
    rollout, parsed = started(wrap(ToyRenderer()), [*BROKEN, END])
    assert not parsed.runnable
    rollout.extend([{"role": "user", "content": "That call isn't JSON."}])
    assert rollout.declines == []


@pytest.mark.parametrize("options", [{"backend": "prime"}, {"backend": "chat-template", "template_bridge": True}], ids=str)
def test_on_qwen3_one_ok_and_one_broken_call_are_answered_in_one_segment(options):
    if options["backend"] == "prime":
        pytest.importorskip("rllm_renderer_prime", reason="rllm-renderer-prime isn't installed: its bridge isn't proven")
    tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
    renderer = resolve("Qwen/Qwen3-8B", tokenizer, parity="off", **options)
    text = (
        '<tool_call>\n{"name": "look", "arguments": {"q": "a"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "count", "arguments": {"q": \n</tool_call><|im_end|>'
    )
    rollout, parsed = started(renderer, tokenizer.encode(text, add_special_tokens=False))
    if not parsed.tool_calls:
        pytest.skip("this backend shows no calls yet: answering them isn't proven on it")
    assert len(parsed.runnable) == 1 and len(parsed.tool_calls) == 2
    prompt = rollout.extend(answers(parsed))
    assert rollout.declines == []
    tail = tokenizer.decode(prompt[len(prompt) - 60 :])
    assert "<tool_response>\n5\n</tool_response>\n<tool_response>\nerror: invalid_json" in tail
