"""``render_ids`` on prime against the official chat templates, over whole conversations, in both endings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import real_tokenizers
import shapes

from rllm_renderer_core import MessageError, RendererError, resolve

THINKING = "Weighing it."
DONE = {"role": "assistant", "content": "Done xq.", "reasoning_content": "Weighing again."}


def conversations() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Turns of each shape: bare, with reasoning, with reasoning and text beside calls, with results that have no name, and
    gone on with."""
    yield "user", [shapes.user("Hi")]
    yield "system, user", shapes.OPENING
    yield "ends with the assistant", [*shapes.OPENING, shapes.TEXT]
    yield "ends with reasoning", [*shapes.OPENING, {**shapes.TEXT, "reasoning_content": THINKING}]
    yield "empty reasoning", [*shapes.OPENING, {**shapes.TEXT, "reasoning_content": ""}, shapes.user("And?")]
    twice = {"role": "assistant", "content": "A </think> B </think> C"}
    yield "closes reasoning twice", [*shapes.OPENING, twice]
    yield "closed reasoning twice", [*shapes.OPENING, twice, shapes.user("And?")]
    for shape in shapes.SHAPES:
        thinking = {**shape.assistant, "reasoning_content": THINKING}
        beside = {**thinking, "content": "so " + (shape.assistant["content"] or "I call")}
        yield shape.name, [*shapes.OPENING, shape.assistant, *shape.new]
        yield f"{shape.name}, reasoning", [*shapes.OPENING, thinking, *shape.new]
        yield f"{shape.name}, text beside", [*shapes.OPENING, beside, *shape.new]
        yield f"{shape.name}, unnamed", [*shapes.OPENING, shape.assistant, *shape.unnamed().new]
        yield f"{shape.name}, gone on", [*shapes.OPENING, shape.assistant, *shape.new, DONE]


DIFFERENT = {
    "deepseek-v3": ("result", "V3's template never closes a turn with one call, nor results before a user message"),
    "nemotron-3": ("system", "upstream refuses a system message that isn't the first; the template renders it"),
}
"""What upstream doesn't render as the template does, and no rewrite of messages can change: part of the conversation's name."""


def outcomes(each: Any, renderer: Any, tokenizer: Any, tools_shown: bool = True, **variables: Any) -> dict[str, list[str]]:
    """Names of the conversations by outcome: equal, different, refused by us, refused by the template, by both."""
    text_of = shapes.template_text(tokenizer, **variables)
    out: dict[str, list[str]] = {"equal": [], "different": [], "we refuse": [], "it refuses": [], "both refuse": []}
    for name, messages in conversations():
        for tools in (None, shapes.TOOLS) if tools_shown else (None,):
            for opener in (False, True):
                try:
                    wanted: list[int] | None = shapes.encode(tokenizer, text_of(messages, tools, opener))
                except Exception:  # a template refuses with whatever Jinja raises
                    wanted = None
                given = copy.deepcopy(messages)
                try:
                    got = renderer.render_ids(given, tools=tools, add_generation_prompt=opener)
                except RendererError:
                    got = None
                assert given == messages, "the messages were changed"
                if got is None:
                    fate = "both refuse" if wanted is None else "we refuse"
                else:
                    fate = "it refuses" if wanted is None else "equal" if got == wanted else "different"
                out[fate].append(f"{name}{', tools' if tools else ''}{', opener' if opener else ''}")
    return out


def test_render_equals_the_official_template(
    templated: Any, prime: Callable[..., Any], tokenizer_of: Callable[[str], Any]
) -> None:
    tokenizer = tokenizer_of(templated.name)
    # Kimi's own tokenizer class writes the tools as TypeScript, and hands them to the template; a plain one can't.
    found = outcomes(templated, prime(templated.name), tokenizer, tools_shown=templated.family != "kimi-k2.5")
    assert not found["it refuses"]
    known, why = DIFFERENT.get(templated.family, ("-", ""))
    differing = [name for name in found["different"] + found["we refuse"] if known not in name]
    assert not differing
    if found["different"] or found["we refuse"]:
        pytest.xfail(f"{len(found['equal'])} equal, {len(found['different'])} different: {why}")


SWITCHED_OFF = [
    ("Qwen/Qwen3-8B", "enable_thinking"),
    ("Qwen/Qwen3.5-9B", "enable_thinking"),
    ("Qwen/Qwen3.6-35B-A3B", "enable_thinking"),
    ("Qwen/Qwen3.8-27B", "enable_thinking"),
    ("zai-org/GLM-4.5", "enable_thinking"),
    ("zai-org/GLM-5", "enable_thinking"),
    ("zai-org/GLM-5.1", "enable_thinking"),
    ("moonshotai/Kimi-K2.6", "thinking"),
]


@pytest.mark.parametrize(("model", "variable"), SWITCHED_OFF)
def test_with_thinking_off_too(
    model: str, variable: str, prime: Callable[..., Any], tokenizer_of: Callable[[str], Any]
) -> None:
    """What a render does for old turns is what the template does; upstream keeps their empty thinking blocks."""
    found = outcomes(None, prime(model, thinking=False), tokenizer_of(model), "Kimi" not in model, **{variable: False})
    assert not found["different"] and not found["we refuse"] and not found["it refuses"]


@pytest.mark.parametrize("model", ["Qwen/Qwen3.5-0.8B", "google/gemma-4-E2B-it"])
def test_with_thinking_on_where_it_is_off_by_default(
    model: str, prime: Callable[..., Any], tokenizer_of: Callable[[str], Any]
) -> None:
    found = outcomes(None, prime(model, thinking=True), tokenizer_of(model), enable_thinking=True)
    assert not found["different"] and not found["we refuse"] and not found["it refuses"]


def test_attribution_follows_a_rewrite(prime: Callable[..., Any], tokenizer_of: Callable[[str], Any]) -> None:
    """Results that became one can't be told apart: their tokens are attributed to no single message, and say so."""
    shape = next(shape for shape in shapes.SHAPES if shape.name == "two results")
    messages = [*shapes.OPENING, shape.assistant, *shape.new]
    out = prime("deepseek-ai/DeepSeek-V3").render(messages, add_generation_prompt=True)
    assert out.message_indices is not None and len(out.message_indices) == len(out.token_ids)
    assert set(out.message_indices) == {-1, 0, 1, 2, None}
    assert out.sampled_mask is not None and any(out.sampled_mask)


def test_thinking_2507_opens_its_reasoning_in_the_prompt(tokenizer_of: Callable[[str], Any]) -> None:
    """Upstream serves it as Qwen3, whose opener doesn't; its own template does, which is in no package."""
    tokenizer_of("Qwen/Qwen3-8B")
    tokenizer = real_tokenizers.load("Qwen/Qwen3-8B", template=False)
    renderer = resolve("Qwen/Qwen3-4B-Thinking-2507", tokenizer, backend="prime")
    prompt = renderer.render_ids([shapes.user("Hi")], add_generation_prompt=True)
    assert tokenizer.decode(prompt).endswith("<|im_start|>assistant\n<think>\n")
    parsed = renderer.parse_response(shapes.encode(tokenizer, "Weighing it.\n</think>\n\nFour.<|im_end|>"), prompt_ids=prompt)
    assert (parsed.reasoning_content, parsed.content) == ("Weighing it.", "Four.")


ROLES = [("Qwen/Qwen3-8B", "developer"), ("zai-org/GLM-5", "narrator"), ("meta-llama/Llama-3.2-3B-Instruct", "developer")]


@pytest.mark.parametrize(("model", "role"), ROLES)
def test_a_role_that_would_be_dropped_is_an_error(model: str, role: str, prime: Callable[..., Any]) -> None:
    with pytest.raises(MessageError, match=f"message 1 has the role '{role}'") as caught:
        prime(model).render_ids([shapes.user("Hi"), {"role": role, "content": "Be kind."}])
    assert caught.value.index == 1


RESULTS = [
    {"role": "tool", "content": "five"},
    {"role": "tool", "tool_call_id": "unknown", "content": "five"},
    {"role": "tool", "tool_call_id": "functions.look:0", "content": "five"},
]


@pytest.mark.parametrize("model", ["google/gemma-4-E2B-it", "openai/gpt-oss-20b", "Qwen/Qwen3-8B", "moonshotai/Kimi-K2.6"])
@pytest.mark.parametrize("result", RESULTS, ids=["no id", "unknown id", "known id"])
def test_results_without_a_name(
    model: str, result: dict[str, Any], prime: Callable[..., Any], tokenizer_of: Callable[[str], Any]
) -> None:
    named = prime(model)
    two = [*shapes.OPENING, shapes.TWO_CALLS, result, shapes.B]
    if model.startswith(("google/", "openai/")) and result.get("tool_call_id") != "functions.look:0":
        with pytest.raises(MessageError, match=r"message 3 \(tool\) has no name") as caught:
            named.render_ids(two)
        assert caught.value.index == 3
        return
    text = tokenizer_of(model).decode(named.render_ids(two))
    assert "five" in text and "unknown" not in text.replace("unknown", "", "Kimi" in model)
    if model.startswith(("google/", "openai/")):
        assert named.render_ids(two) == named.render_ids([*shapes.OPENING, shapes.TWO_CALLS, shapes.A, shapes.B])


@pytest.mark.parametrize("blank", [{}, {"content": None}, {"content": []}, {"content": ""}], ids=["absent", "None", "[]", "''"])
def test_blank_content_has_one_form(
    blank: dict[str, Any], each: Any, prime: Callable[..., Any], tokenizer_of: Callable[[str], Any]
) -> None:
    turn = {key: value for key, value in shapes.ONE_CALL.items() if key != "content"}
    ids = prime(each.name).render_ids([*shapes.OPENING, {**turn, **blank}, shapes.ONE], tools=shapes.TOOLS)
    assert ids == prime(each.name).render_ids([*shapes.OPENING, shapes.ONE_CALL, shapes.ONE], tools=shapes.TOOLS)
    text = tokenizer_of(each.name).decode(ids)
    assert "None" not in text and shapes.CALL_WORDS in text


def test_arguments_as_text_and_as_a_mapping(each: Any, prime: Callable[..., Any], tokenizer_of: Callable[[str], Any]) -> None:
    """The same ids; text keeps its spaces and the order of its keys where the format carries JSON."""

    def ids(arguments: Any) -> list[int]:
        call = {"id": "functions.look:0", "type": "function", "function": {"name": "look", "arguments": arguments}}
        turn = {"role": "assistant", "content": "", "tool_calls": [call]}
        rendered = prime(each.name).render_ids([*shapes.OPENING, turn, shapes.ONE])
        assert isinstance(rendered, list)
        return rendered

    assert ids({"q": "tea"}) == ids('{"q": "tea"}')
    text = tokenizer_of(each.name).decode(ids('{"b":1,"a":[true,null]}'))
    if each.family in ("qwen3", "deepseek-v3", "kimi-k2.5", "gpt-oss", "llama-3"):
        assert '{"b":1,"a":[true,null]}' in text
    elif each.family not in ("gemma4", "qwen3.5"):
        assert "[true, null]" in text or "[true,null]" in text
    if each.family != "qwen3.5":  # its official template prints Python's literals: see docs/models-in-detail.md
        assert "True" not in text and "None" not in text
    with pytest.raises(MessageError, match="message 2"):
        ids('{"q": tea}')
