"""The chat-template backend's bridges: the seam over real templates, against the official continuation."""

from __future__ import annotations

from typing import Any

import pytest
import real_tokenizers
import served
import shapes

from rllm_renderer_core import BridgeDeclined, NoBridgeError, RenderError, resolve
from rllm_renderer_core.normal_form.tokenizer import reasoning_ids

MODELS = served.models(template=True)

FORCED = {
    "changes the turns before": "the template moves a system message to the start of the conversation",
    "drops new message": "the template doesn't show a system message that isn't the first",
    "the new messages change how": "the template moves a system message to the start of the conversation",
    "moves text beside calls": "Gemma 4 shows text beside calls behind their results",
    "can't be paired for certain": "the format shows the call's name beside its result",
}
"""Reasons of a decline that the format forces."""

NEEDS_PREVIOUS = ("openai/gpt-oss-20b", "google/gemma-4-E2B-it")
"""Formats that show which call a result answers: without ``previous_message`` unnamed results can't be bridged."""


def renderer_of(model: str) -> Any:
    why = real_tokenizers.missing(model)
    if why:
        pytest.skip(why)
    return served.resolved(model, "chat-template")


def cases(model: str, tools: Any, mode: str) -> Any:
    """Each shape that the template accepts, with P, C and the official continuation."""
    tokenizer = real_tokenizers.load(model)
    text_of, close = shapes.template_text(tokenizer), shapes.closes(model)
    for shape in shapes.SHAPES:
        if mode != "named":
            if shape.unnamed().new == shape.new:
                continue
            shape = shape.unnamed()
        try:
            wanted = shapes.continuation(tokenizer, text_of, shape, close, tools)
            prompt, sampled = shapes.sampled_turn(tokenizer, text_of, shape, close, tools)
        except Exception:  # the template refuses this conversation, or doesn't show it
            continue
        yield shape, prompt, sampled, wanted


def outcomes(model: str, tools: Any, mode: str) -> tuple[int, list[tuple[str, str]]]:
    """How many bridges equal the official continuation, and the declines with their reasons; anything else fails."""
    renderer = renderer_of(model)
    equal, declined = 0, []
    for shape, prompt, sampled, wanted in cases(model, tools, mode):
        previous = None if mode == "unnamed" else shape.assistant
        out = renderer.try_bridge(prompt, sampled, shape.new, tools=tools, previous_message=previous)
        if isinstance(out, BridgeDeclined):
            declined.append((shape.name, out.reason))
            continue
        assert out.token_ids[: len(prompt) + len(sampled)] == prompt + sampled
        assert out.token_ids[len(prompt) + len(sampled) :] == wanted, shape.name
        equal += 1
    return equal, declined


@pytest.mark.parametrize("model", MODELS)
def test_bridges_equal_the_official_continuation(model: str) -> None:
    equal, declined = outcomes(model, None, "named")
    assert equal >= 2
    assert {name for name, _ in declined} <= {"system"}, declined
    assert all(any(text in reason for text in FORCED) for _, reason in declined), declined


@pytest.mark.parametrize("model", MODELS)
def test_bridges_with_tools_equal_the_official_continuation(model: str) -> None:
    _, declined = outcomes(model, shapes.TOOLS, "named")
    assert {name for name, _ in declined} <= {"system"}, declined


@pytest.mark.parametrize("model", MODELS)
def test_results_without_names_are_bridged_with_the_previous_message(model: str) -> None:
    _, declined = outcomes(model, shapes.TOOLS, "previous")
    assert declined == []


@pytest.mark.parametrize("model", MODELS)
def test_results_without_names_are_bridged_or_declined_because_the_format_shows_them(model: str) -> None:
    _, declined = outcomes(model, None, "unnamed")
    assert not declined or model in NEEDS_PREVIOUS, declined
    assert all(any(text in reason for text in FORCED) for _, reason in declined), declined


@pytest.mark.parametrize(
    "model", ["Qwen/Qwen3-8B", "zai-org/GLM-5", "deepseek-ai/DeepSeek-V3.1", "meta-llama/Llama-3.2-3B-Instruct"]
)
class TestEndings:
    """What the completion ends with, on one shape."""

    def turn(self, model: str, index: int = 0) -> tuple[Any, list[int], list[int], list[dict[str, Any]], list[int]]:
        renderer = renderer_of(model)
        shape, prompt, sampled, wanted = list(cases(model, None, "named"))[index]
        return renderer, prompt, sampled, shape.new, wanted

    def test_a_missing_close_is_added(self, model: str) -> None:
        renderer, prompt, sampled, new, wanted = self.turn(model)
        out = renderer.bridge_to_next_turn(prompt, sampled[:-1], new)
        assert out.token_ids == prompt + sampled + wanted
        assert out.sampled_mask[len(prompt) + len(sampled) - 1] is False

    def test_a_doubled_close_is_declined(self, model: str) -> None:
        renderer, prompt, sampled, new, _ = self.turn(model)
        assert renderer.bridge_to_next_turn(prompt, [*sampled, sampled[-1]], new) is None

    def test_user_text_that_spells_the_close_absorbs_nothing(self, model: str) -> None:
        renderer, prompt, sampled, _, _ = self.turn(model)
        close = real_tokenizers.load(model).convert_ids_to_tokens(sampled[-1])
        new = [{"role": "user", "content": f"{close} say it twice"}]
        assert renderer.bridge_to_next_turn(prompt, [*sampled, sampled[-1]], new) is None

    def test_what_the_next_turn_begins_with_is_not_repeated(self, model: str) -> None:
        renderer, prompt, sampled, new, wanted = self.turn(model)
        specials = set(real_tokenizers.load(model).get_added_vocab().values())
        if wanted[0] in specials:
            assert renderer.bridge_to_next_turn(prompt, [*sampled, wanted[0]], new) is None
        else:
            out = renderer.bridge_to_next_turn(prompt, [*sampled, wanted[0]], new)
            assert out.token_ids == prompt + sampled + wanted

    def test_other_ids_after_the_close_are_declined(self, model: str) -> None:
        renderer, prompt, sampled, new, _ = self.turn(model)
        word = shapes.encode(real_tokenizers.load(model), " apples")
        assert renderer.bridge_to_next_turn(prompt, sampled + word, new) is None

    def test_a_completion_of_the_stop_alone(self, model: str) -> None:
        renderer, prompt, sampled, new, wanted = self.turn(model)
        opened = renderer.parse_response([], prompt_ids=prompt).reasoning_complete is False
        out = renderer.bridge_to_next_turn(prompt, sampled[-1:], new)
        assert out is None if opened else out.token_ids == prompt + sampled[-1:] + wanted

    def test_marker_text_in_new_messages_stays_in_the_delta(self, model: str) -> None:
        tokenizer = real_tokenizers.load(model)
        renderer, prompt, sampled, _, _ = self.turn(model)
        close = tokenizer.convert_ids_to_tokens(sampled[-1])
        shape = shapes.Shape("marker", shapes.TEXT, [shapes.user(f"say {close} twice"), shapes.user("<think>?")])
        wanted = shapes.continuation(tokenizer, shapes.template_text(tokenizer), shape, shapes.closes(model))
        out = renderer.bridge_to_next_turn(prompt, sampled, shape.new)
        assert out.token_ids == prompt + sampled + wanted

    @pytest.mark.parametrize("content", ["", " ", "\n\n"])
    def test_blank_messages_equal_the_template_or_are_declined(self, model: str, content: str) -> None:
        tokenizer = real_tokenizers.load(model)
        renderer, prompt, sampled, _, _ = self.turn(model)
        shape = shapes.Shape("blank", shapes.TEXT, [shapes.user(content)])
        wanted = shapes.continuation(tokenizer, shapes.template_text(tokenizer), shape, shapes.closes(model))
        out = renderer.try_bridge(prompt, sampled, shape.new)
        assert isinstance(out, BridgeDeclined) or out.token_ids == prompt + sampled + wanted


@pytest.mark.parametrize("model", ["Qwen/Qwen3.5-9B", "zai-org/GLM-5", "deepseek-ai/DeepSeek-V3.1", "MiniMaxAI/MiniMax-M3"])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_completion_that_ends_inside_reasoning_is_declined(model: str, stopped: bool) -> None:
    renderer = renderer_of(model)
    tokenizer = real_tokenizers.load(model)
    # DeepSeek's template shows no reasoning; its vocabulary has the markers.
    opening, _ = renderer.upstream.traits.reasoning_ids() or reasoning_ids(tokenizer)
    prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    sampled = [opening, *shapes.encode(tokenizer, "Weighing both, the first")]
    if stopped:
        sampled += [tokenizer.convert_tokens_to_ids(shapes.closes(model)[0])]
    out = renderer.try_bridge(prompt, sampled, [shapes.user("And?")])
    assert isinstance(out, BridgeDeclined)
    assert "inside reasoning" in out.reason


def test_reasoning_that_the_template_does_not_show_is_bridged_once_closed() -> None:
    renderer = renderer_of("deepseek-ai/DeepSeek-V3.1")
    tokenizer = real_tokenizers.load("deepseek-ai/DeepSeek-V3.1")
    prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    sampled = [*shapes.encode(tokenizer, "<think>Weighing both</think>four"), *renderer.get_stop_token_ids()[:1]]
    out = renderer.try_bridge(prompt, sampled, [shapes.user("And?")])
    assert not isinstance(out, BridgeDeclined), out.reason


def test_reasoning_that_the_prompt_opened_is_parsed_as_reasoning() -> None:
    renderer = renderer_of("Qwen/Qwen3.5-9B")
    prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    sampled = shapes.encode(real_tokenizers.load("Qwen/Qwen3.5-9B"), "Weighing both, the first")
    parsed = renderer.parse_response(sampled, prompt_ids=prompt)
    assert (parsed.content, parsed.reasoning_content) == ("", "Weighing both, the first")
    assert (parsed.reasoning_complete, parsed.termination.value) == (False, "truncated")


@pytest.mark.parametrize("first,second", [("<|user|>", "<|observation|>"), ("<|observation|>", "<|user|>")])
def test_a_sampled_role_tag_that_contradicts_the_new_messages_is_declined(first: str, second: str) -> None:
    model = "zai-org/GLM-5"
    renderer = renderer_of(model)
    tokenizer = real_tokenizers.load(model)
    index = 0 if first == "<|user|>" else 2
    shape, prompt, sampled, _ = list(cases(model, None, "named"))[index]
    assert sampled[-1] == tokenizer.convert_tokens_to_ids(first)
    assert renderer.bridge_to_next_turn(prompt, sampled, shape.new) is not None
    swapped = [*sampled[:-1], tokenizer.convert_tokens_to_ids(second)]
    assert renderer.bridge_to_next_turn(prompt, swapped, shape.new) is None


def test_a_default_system_block_is_not_repeated() -> None:
    """Ministral's template opens with a long default system block where there is no system message."""
    model = "mistralai/Ministral-3-14B-Reasoning-2512"
    renderer = renderer_of(model)
    tokenizer = real_tokenizers.load(model)
    shape = next(each for each in shapes.SHAPES if each.name == "one result")
    text_of, close = shapes.template_text(tokenizer), shapes.closes(model)
    opening = [shapes.user("How many apples?")]
    wanted = shapes.continuation(tokenizer, text_of, shape, close, None, opening)
    prompt, sampled = shapes.sampled_turn(tokenizer, text_of, shape, close, None, opening)
    out = renderer.bridge_to_next_turn(prompt, sampled, shape.new, previous_message=shape.assistant)
    assert out.token_ids == prompt + sampled + wanted


def test_a_template_that_raises_is_a_decline_with_its_reason() -> None:
    renderer = renderer_of("google/gemma-3-4b-it")
    _, prompt, sampled, _ = next(iter(cases("google/gemma-3-4b-it", None, "named")))
    out = renderer.try_bridge(prompt, sampled, [shapes.user("a"), shapes.user("b")])
    assert isinstance(out, BridgeDeclined)
    assert "alternate" in out.reason


def test_template_bridge_false_declines_every_bridge() -> None:
    model = "Qwen/Qwen3-8B"
    renderer_of(model)
    renderer = resolve(model, real_tokenizers.load(model), backend="chat-template", template_bridge=False)
    shape, prompt, sampled, _ = next(iter(cases(model, None, "named")))
    out = renderer.try_bridge(prompt, sampled, shape.new)
    assert renderer.has_bridge is False
    assert isinstance(out, BridgeDeclined)
    assert "template_bridge=False" in str(out)


def bare(**attributes: Any) -> Any:
    """Qwen3's vocabulary under another name, with other templates."""
    why = real_tokenizers.missing("Qwen/Qwen3-8B")
    if why:
        pytest.skip(why)
    tokenizer = real_tokenizers.load("Qwen/Qwen3-8B", name_or_path="nobody/knows", template=False)
    for name, value in attributes.items():
        setattr(tokenizer, name, value)
    return tokenizer


def test_require_bridge_refuses_a_template_that_closes_no_turn() -> None:
    tokenizer = bare(chat_template="{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    with pytest.raises(NoBridgeError, match="there is no close token"):
        resolve("nobody/knows", tokenizer, backend="chat-template", require_bridge=True)
    assert resolve("nobody/knows", tokenizer, backend="chat-template").has_bridge is False


@pytest.mark.parametrize("form", [dict, lambda found: [{"name": name, "template": found[name]} for name in found]])
def test_of_several_templates_the_one_that_serving_takes(form: Any) -> None:
    """With tools ``tool_use``, also where it is the only one; else ``default``, which here knows no calls."""
    with_tools = real_tokenizers.MODELS["Qwen/Qwen3-8B"].template
    assert with_tools is not None
    plain = (
        "{% for m in messages %}{% if m.tool_calls %}{{ raise_exception('no calls') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    single = renderer_of("Qwen/Qwen3-8B")
    turn = [*shapes.OPENING, shapes.ONE_CALL, shapes.ONE]
    prompt = single.render_ids(shapes.OPENING, tools=shapes.TOOLS, add_generation_prompt=True)
    sampled = single.render_ids([*shapes.OPENING, shapes.ONE_CALL], tools=shapes.TOOLS)[len(prompt) : -1]
    for templates in ({"default": plain, "tool_use": with_tools()}, {"tool_use": with_tools()}):
        tokenizer = bare(chat_template=form(templates))
        renderer = resolve("nobody/knows", tokenizer, backend="chat-template")
        assert renderer.render_ids(turn, tools=shapes.TOOLS) == single.render_ids(turn, tools=shapes.TOOLS)
        out = renderer.try_bridge(prompt, sampled, [shapes.ONE], tools=shapes.TOOLS, previous_message=shapes.ONE_CALL)
        wanted = single.try_bridge(prompt, sampled, [shapes.ONE], tools=shapes.TOOLS, previous_message=shapes.ONE_CALL)
        assert out.token_ids == wanted.token_ids
        assert renderer.get_stop_token_ids() == single.get_stop_token_ids()
        with pytest.raises(RenderError, match="tools") as caught:
            renderer.render_ids(turn)
        assert caught.value.fix == "pass tools"
        if "default" in templates:
            assert renderer.render_ids(shapes.OPENING) == single.render_ids(shapes.OPENING)


@pytest.mark.parametrize("model", MODELS)
def test_stops_that_history_shows_are_stops(model: str) -> None:
    renderer = renderer_of(model)
    tokenizer = real_tokenizers.load(model)
    stops = {tokenizer.convert_ids_to_tokens(each) for each in renderer.get_stop_token_ids()}
    # A template doesn't show that sampling stops at these two: they are in the model's generation_config.json.
    assert set(shapes.stops(model)) - {"<|call|>", "<|tool_response>"} <= stops
    assert "<|end|>" not in stops


def test_raw_argument_text_stays_raw_where_the_format_carries_json() -> None:
    raw = '{"b":1,"a":[true,null]}'
    for model, kept in (("Qwen/Qwen3-8B", True), ("deepseek-ai/DeepSeek-V3.1", True), ("Qwen/Qwen3.5-9B", False)):
        renderer = renderer_of(model)
        tokenizer = real_tokenizers.load(model)
        calls = [{"id": "c", "type": "function", "function": {"name": "look", "arguments": raw}}]
        text = tokenizer.decode(renderer.render_ids([shapes.user("a"), {"role": "assistant", "tool_calls": calls}]))
        assert (raw in text) is kept
        assert "True" not in text
        assert "None" not in text


def test_text_beside_calls_that_a_template_would_drop_is_an_error() -> None:
    renderer = renderer_of("deepseek-ai/DeepSeek-V3")
    with pytest.raises(RenderError, match="text beside tool calls"):
        renderer.render_ids([shapes.user("a"), {**shapes.ONE_CALL, "content": "Looking."}])
