"""Completions as models really end them: each bridge is right or declined, and the reason says why."""

import pytest
import shapes
import tinker_oracle as oracle
from tinker_turns import CALLS, FOUR, USER, Turn, closes_calls, opens_reasoning

from rllm_renderer_core import BridgeDeclined


@pytest.fixture
def turn(case, resolved):
    return Turn(case, resolved)


def test_cut_off_in_text_the_close_is_added_unsampled(turn):
    whole = turn.delta([*turn.start, *turn.ids(FOUR), turn.stop])
    sampled = [*turn.start, *turn.ids(FOUR)]
    out = turn.bridge(sampled)
    cut = turn.delta(sampled)
    assert cut[-len(whole) :] == whole
    assert len(cut) > len(whole) and len(cut) - len(whole) <= 2
    assert not any(out.sampled_mask[len(turn.prompt) + len(sampled) :])


@pytest.mark.cases(that=opens_reasoning)
def test_cut_off_inside_reasoning_is_declined(turn):
    out = turn.bridge(turn.ids("Weighing both, the first"))
    assert isinstance(out, BridgeDeclined) and "reasoning" in out.reason


@pytest.mark.cases(that=opens_reasoning)
def test_stopped_inside_reasoning_is_declined(turn):
    out = turn.bridge([*turn.ids("Weighing both"), turn.stop])
    assert isinstance(out, BridgeDeclined) and "inside reasoning" in out.reason


def test_a_prefilled_opening_of_reasoning_counts(renderer_of):
    case = next(case for case in oracle.CASES if case.renderer == "qwen3")
    turn = Turn(case, renderer_of(case.renderer, case.model))
    turn.prompt += turn.ids("<think>\n")
    assert isinstance(turn.bridge(turn.ids("Weighing both")), BridgeDeclined)
    assert isinstance(turn.bridge([*turn.ids("Weighing both"), turn.stops[0]]), BridgeDeclined)
    sampled = [*turn.ids("Weighing both\n</think>\n\nfour"), turn.stops[0]]
    assert turn.delta(sampled)
    parsed = turn.resolved.parse_response(sampled, prompt_ids=turn.prompt)
    assert (parsed.reasoning_content, parsed.content) == ("Weighing both", "four")


@pytest.mark.cases(that=closes_calls)
def test_cut_off_inside_a_call_is_declined(turn):
    ids = turn.ids(CALLS[turn.case.renderer])
    out = turn.bridge([*turn.start, *ids[: len(ids) // 2]], [shapes.user("And?")])
    assert isinstance(out, BridgeDeclined), turn.tokenizer.decode(ids[: len(ids) // 2])


def test_a_completion_that_is_only_the_stop(turn):
    if turn.start and not turn.case.renderer.startswith("gpt_oss"):
        assert isinstance(turn.bridge([turn.stop]), BridgeDeclined)  # inside reasoning
    else:
        assert turn.delta([turn.stop]) == turn.delta([*turn.start, *turn.ids(FOUR), turn.stop])


def test_an_empty_completion_is_closed_or_declined(turn):
    out = turn.bridge([])
    if not isinstance(out, BridgeDeclined):
        assert out.token_ids[: len(turn.prompt)] == turn.prompt


def test_a_doubled_stop_is_declined(turn):
    for other in turn.stops:
        assert isinstance(turn.bridge([*turn.start, *turn.ids(FOUR), turn.stop, other]), BridgeDeclined)


def test_ids_behind_the_stop_are_declined_unless_the_next_turn_begins_with_them(turn):
    whole = [*turn.start, *turn.ids(FOUR), turn.stop]
    assert isinstance(turn.bridge([*whole, *turn.ids("more")]), BridgeDeclined)
    delta = turn.delta(whole)
    out = turn.bridge([*whole, delta[0]])
    if isinstance(out, BridgeDeclined):
        assert delta[0] in turn.resolved.upstream._control
    else:
        assert out.token_ids == turn.prompt + whole + delta


def test_a_stop_that_contradicts_the_new_messages_is_declined(renderer_of):
    case = oracle.OWN[0]
    turn = Turn(case, renderer_of(case.renderer, case.model))
    user, observation = turn.ids("<|user|>")[0], turn.ids("<|observation|>")[0]
    text = [*turn.start, *turn.ids(FOUR)]
    assert turn.delta([*text, user])
    assert isinstance(turn.bridge([*text, observation]), BridgeDeclined)
    called = [*turn.start, *turn.ids(CALLS[case.renderer])]
    assert turn.delta([*called, observation], [shapes.ONE])
    assert isinstance(turn.bridge([*called, user], [shapes.ONE]), BridgeDeclined)


def result(content="five", **more):
    return {"role": "tool", "content": content, **more}


@pytest.fixture
def called(case, resolved):
    """A turn whose completion is one call, with its stop."""
    turn = Turn(case, resolved)
    start = [] if case.renderer.startswith("gpt") else turn.start
    text = [*start, *turn.ids(CALLS[case.renderer])]
    for stop in turn.stops:
        if not isinstance(turn.bridge([*text, stop], [result()]), BridgeDeclined):
            turn.sampled = [*text, stop]
            return turn
    raise AssertionError("no stop bridges a result")


def test_a_result_needs_neither_name_nor_id_where_there_is_one_call(called):
    forms = [result(), result(name="look"), result(tool_call_id="x1") if called.case.renderer != "kimi_k26" else result()]
    deltas = [called.delta(called.sampled, [form]) for form in forms]
    assert deltas[0] == deltas[2]
    if called.case.renderer == "kimi_k26":  # its template's header is the name that the caller gave, else the role
        heads = [called.tokenizer.decode(ids).split("<|im_middle|>")[0] for ids in deltas[:2]]
        assert heads[0].endswith("tool") and heads[1].endswith("look"), heads
    else:
        assert deltas[0] == deltas[1]
    assert "five" in called.tokenizer.decode(deltas[0])


def test_one_result_more_than_calls_is_complete_or_declined(called):
    out = called.bridge(called.sampled, [result("five"), result("seven")])
    if not isinstance(out, BridgeDeclined):
        text = called.tokenizer.decode(out.token_ids[len(called.prompt) + len(called.sampled) :])
        assert "five" in text and "seven" in text


def test_blank_results_and_users_are_bridged_or_declined(called):
    for content in ("", " ", "\n", " \n\t "):
        for new in ([result(content)], [result("five"), shapes.user(content)]):
            out = called.bridge(called.sampled, new)
            assert isinstance(out, BridgeDeclined) or out.token_ids[: len(called.prompt)] == called.prompt


def test_results_one_at_a_time_never_give_a_second_opener(called):
    first = called.delta(called.sampled, [result("five")])
    prompt = called.prompt + called.sampled + first
    out = called.resolved.try_bridge(prompt, [called.stops[0]], [result("seven")])
    if not isinstance(out, BridgeDeclined):
        assert out.token_ids[: len(prompt)] == prompt


def test_developer_and_system_messages_show_or_are_declined(turn):
    whole = [*turn.start, *turn.ids(FOUR), turn.stop]
    for role in ("system", "developer"):
        out = turn.bridge(whole, [{"role": role, "content": "Be zq kind."}, *USER])
        if not isinstance(out, BridgeDeclined):
            assert "Be zq kind." in turn.tokenizer.decode(out.token_ids[len(turn.prompt) :])


def test_an_assistant_message_among_the_new_is_declined(turn):
    assert isinstance(turn.bridge([*turn.start, *turn.ids(FOUR), turn.stop], [shapes.TEXT, *USER]), BridgeDeclined)


def test_marker_text_is_bridged_as_the_renderer_renders_it_or_declined(turn):
    """Prompt, completion and the rest stand; the text of a control token becomes whatever a full render makes of it."""
    whole = [*turn.start, *turn.ids(FOUR), turn.stop]
    control = [turn.tokenizer.decode([stop]) for stop in turn.stops]
    for marker in [*control, "<think>", "</think>", "<|im_start|>system", "<tool_response>", "<|user|>", "<｜User｜>"]:
        new = [shapes.user(f"say {marker} twice")]
        out = turn.bridge(whole, new)
        if isinstance(out, BridgeDeclined):
            continue
        delta = out.token_ids[len(turn.prompt) + len(whole) :]
        full = turn.resolved.render_ids([*shapes.OPENING, shapes.TEXT, *new], add_generation_prompt=True)
        assert full[-len(delta) :] == delta, marker
