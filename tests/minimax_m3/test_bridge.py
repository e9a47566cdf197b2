"""P + C + the new turns + the opener, equal to the template's continuation; and every decline with its reason."""

from __future__ import annotations

import m3_strategies as strategies
import m3_tokenizer as m3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rllm_renderer_training import Rollout
from sampling import how_many

from rllm_renderer_core import ToolCallStatus, resolve
from rllm_renderer_core.errors import BridgeDeclined

tokenizer = m3.load()
CLOSE, NEWLINE, TURN = 200020, 10, 200019
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
HEAD = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "tea?"}]
CALLS = [m3.call("look", {"q": "tea"}, "c0"), m3.call("look", {"q": "lids"}, "c1")]


def user(text):
    return {"role": "user", "content": text}


def result(text, number=0):
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def assistant(mode, calls=0):
    message = {"role": "assistant", "content": "Four.", "tool_calls": CALLS[:calls]}
    if mode != "disabled":
        message["reasoning_content"] = "Weighing\nboth."
    return message


SHAPES = {
    "user": (0, [user("and lids?")]),
    "two users": (0, [user("and lids?"), user("now")]),
    "one result": (1, [result("A")]),
    "two results": (2, [result("A"), result("B", 1)]),
    "results in reverse": (2, [result("B", 1), result("A")]),
    "result then user": (1, [result("A"), user("go on")]),
    "empty result": (1, [result("")]),
    "unicode with edge whitespace": (0, [user("\n  e\u0301 猫 🙂\u00a0 \n\n")]),
}
MODES = ["enabled", "disabled", "adaptive"]


def split(subject, mode, calls=0):
    """P, and C as the model would have sampled it, with its stop."""
    prompt = subject.render_ids(HEAD, tools=TOOLS, add_generation_prompt=True)
    full = subject.render_ids([*HEAD, assistant(mode, calls)], tools=TOOLS)
    assert full[: len(prompt)] == prompt and full[-2:] == [CLOSE, NEWLINE]
    return prompt, full[len(prompt) : -1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES)
def test_shape_equals_the_template(shape, mode):
    calls, new = SHAPES[shape]
    subject = m3.renderer(thinking_mode=mode)
    prompt, completion = split(subject, mode, calls)
    expected = m3.template_ids([*HEAD, assistant(mode, calls), *new], TOOLS, True, thinking_mode=mode)
    bridged = subject.bridge_to_next_turn(prompt, completion, new, tools=TOOLS)
    assert bridged.token_ids == expected
    known = len(prompt) + len(completion)
    assert bridged.message_indices[:known] == bridged.sampled_mask[:known] == [None] * known
    assert not any(bridged.sampled_mask[known:])
    opener = 3 if mode == "adaptive" else 4
    assert bridged.message_indices[known] == -1 and bridged.message_indices[-opener:] == [-1] * opener
    assert bridged.message_indices[known + 1 : -opener] == sorted(bridged.message_indices[known + 1 : -opener])
    assert set(bridged.message_indices[known + 1 : -opener]) == set(range(len(new)))


@pytest.mark.parametrize("role", ["system", "developer", "root"])
def test_a_role_that_the_template_would_drop_is_declined(role):
    subject = m3.renderer()
    with pytest.raises(BridgeDeclined, match=f"new message 1 is a {role} message"):
        subject.bridge_to_next_turn(*split(subject, "adaptive"), [user("a"), {"role": role, "content": "b"}])


def test_the_close_is_added_to_truncated_text_unsampled():
    subject = m3.renderer()
    prompt, completion = split(subject, "adaptive")
    cut = subject.bridge_to_next_turn(prompt, completion[:-1], [user("x")])
    assert cut.token_ids == subject.bridge_to_next_turn(prompt, completion, [user("x")]).token_ids
    at = len(prompt) + len(completion) - 1
    assert cut.token_ids[at] == CLOSE and cut.sampled_mask[at] is False and cut.message_indices[at] == -1


def test_a_newline_behind_the_stop_is_not_doubled():
    subject = m3.renderer()
    prompt, completion = split(subject, "adaptive")
    plain = subject.bridge_to_next_turn(prompt, completion, [user("x")]).token_ids
    assert subject.bridge_to_next_turn(prompt, [*completion, NEWLINE], [user("x")]).token_ids == plain


def test_a_sampled_answer_without_think_tags_stays():
    subject = m3.renderer()
    prompt, _ = split(subject, "adaptive")
    completion = tokenizer.encode("Four.[e~[", add_special_tokens=False)
    bridged = subject.bridge_to_next_turn(prompt, completion, [user("x")]).token_ids
    assert bridged[: len(prompt) + len(completion)] == prompt + completion


def test_a_prompt_that_holds_the_beginning_of_the_answer():
    subject = m3.renderer()
    prompt, completion = split(subject, "adaptive")
    moved = subject.bridge_to_next_turn(prompt + completion[:4], completion[4:], [user("x")]).token_ids
    assert moved == subject.bridge_to_next_turn(prompt, completion, [user("x")]).token_ids


def ids(text):
    return tokenizer.encode(text, add_special_tokens=False)


CUT_CALL = '</mm:think>]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="look">'
DECLINES = {
    "no new messages": (None, None, []),
    "assistant message": (None, None, [user("a"), {"role": "assistant", "content": "b"}]),
    "role 'function'": (None, None, [{"role": "function", "content": "b"}]),
    "media": (None, None, [{"role": "user", "content": [{"type": "image", "image": b"x"}]}]),
    "empty prompt": ([], None, [user("a")]),
    "empty completion": (None, [], [user("a")]),
    "open assistant turn": (ids("]~!b[]~b]system\nx[e~[\n"), None, [user("a")]),
    "two stops": (None, ids("</mm:think>a[e~[[e~["), [user("a")]),
    "ids after the stop": (None, ids("</mm:think>a[e~[\n]~b]user\n"), [user("a")]),
    "1 ids after the stop": (None, ids("</mm:think>a[e~[a"), [user("a")]),
    "opener of another turn": (None, ids("</mm:think>a]~b]user\nb[e~["), [user("a")]),
    "inside reasoning": (None, ids("<mm:think>a"), [user("a")]),
    "ends inside reasoning": (None, ids("<mm:think>a[e~["), [user("a")]),
    "turn without a call": (None, ids("</mm:think>a[e~["), [result("A")]),
    "cut off inside a tool call": (None, ids(CUT_CALL), [result("A")]),
    "has no role": (None, None, [{"content": "a"}]),
    "must be a list": (None, None, "text"),
}


@pytest.mark.parametrize("reason", DECLINES)
def test_declined(reason):
    subject = m3.renderer()
    prompt, completion, new = DECLINES[reason]
    real_prompt, real_completion = split(subject, "adaptive")
    with pytest.raises(BridgeDeclined, match=reason) as caught:
        subject.bridge_to_next_turn(
            real_prompt if prompt is None else prompt, real_completion if completion is None else completion, new
        )
    assert "\n" not in caught.value.reason


def test_a_result_bridged_after_a_bridged_result_is_declined():
    subject = m3.renderer()
    first = subject.bridge_to_next_turn(*split(subject, "adaptive", 2), [result("A")])
    with pytest.raises(BridgeDeclined):
        subject.bridge_to_next_turn(first.token_ids, [], [result("B", 1)])


def test_a_call_to_a_tool_that_is_not_declared_is_answered_in_a_rollout():
    renderer = resolve("MiniMaxAI/MiniMax-M3", tokenizer, backend="minimax-m3")
    messages = [*HEAD, {"role": "assistant", "content": "", "tool_calls": [m3.call("pour", {"q": "tea"}, "c0")]}]
    whole = renderer.render_ids(messages)
    rollout = Rollout(renderer)
    prompt = rollout.begin(HEAD, tools=TOOLS)
    opener = renderer.render_ids(HEAD, add_generation_prompt=True)
    sampled = whole[len(opener) :]
    sampled = sampled[: sampled.index(CLOSE) + 1]
    parsed = rollout.record(sampled)
    assert [call.status for call in parsed.tool_calls] == [ToolCallStatus.UNKNOWN_TOOL]
    call = parsed.tool_calls[0]
    extended = rollout.extend([{"role": "tool", "tool_call_id": call.id, "content": "no such tool"}])
    assert extended[: len(prompt) + len(sampled)] == prompt + sampled
    assert "no such tool" in tokenizer.decode(extended[len(prompt) + len(sampled) :])


def test_a_result_for_a_previous_message_without_calls_is_declined():
    subject = m3.renderer()
    prompt, completion = split(subject, "adaptive", 1)
    with pytest.raises(BridgeDeclined, match="without a call"):
        subject.bridge_to_next_turn(prompt, completion, [result("A")], previous_message={"role": "assistant", "content": "x"})
    assert subject.bridge_to_next_turn(prompt, completion, [result("A")], previous_message=assistant("adaptive", 1))


@settings(
    max_examples=how_many(50, 400), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(
    st.sampled_from(MODES),
    st.sampled_from([0, 1, 2]),
    st.lists(st.tuples(st.sampled_from(["user", "tool"]), strategies.any_text), min_size=1, max_size=4),
)
def test_equals_the_full_render(mode, calls, drawn):
    new = [{"role": role, "content": text} for role, text in drawn if role == "user" or calls]
    if not new:
        return
    subject = SUBJECTS[mode]
    bridged = subject.bridge_to_next_turn(*SPLITS[mode, calls], new)
    full = subject.render_ids([*HEAD, assistant(mode, calls), *new], tools=TOOLS, add_generation_prompt=True)
    assert bridged.token_ids == full


SUBJECTS = {mode: m3.renderer(thinking_mode=mode) for mode in MODES}
SPLITS = {(mode, calls): split(SUBJECTS[mode], mode, calls) for mode in MODES for calls in (0, 1, 2)}
reserved = st.sampled_from([CLOSE, TURN, 200034, 200058, 200059, 200060, 200052, 200053, NEWLINE])


@settings(max_examples=how_many(37, 300), deadline=None, derandomize=True, database=None)
@given(st.lists(st.one_of(reserved, st.integers(0, 200060)), max_size=12), st.booleans())
def test_any_completion_is_kept_or_declined(completion, calls):
    subject = SUBJECTS["adaptive"]
    prompt, _ = SPLITS["adaptive", 0]
    try:
        bridged = subject.bridge_to_next_turn(prompt, completion, [result("A") if calls else user("x")]).token_ids
    except BridgeDeclined:
        return
    assert bridged[: len(prompt) + len(completion)] == prompt + completion
    assert bridged[len(prompt) :].count(CLOSE) == 2
