"""Ids of whole conversations equal the official template's, with and without tools, with and without the opener."""

import pytest
import shapes
import tinker_oracle as oracle

BLOCK_OPENED = "upstream opens the block that a last turn without reasoning doesn't have"
KNOWN = {
    ("deepseekv3_thinking", "ends in text"): BLOCK_OPENED,
    ("deepseekv3_thinking", "ends in a reasoned turn"): BLOCK_OPENED,
    ("deepseekv3_thinking", "ends in a call"): BLOCK_OPENED,
    ("qwen3_5_preserve_thinking", "all kinds of arguments"): "Qwen3.6 prints true where Qwen3.5 prints True",
    ("gpt_oss_medium_reasoning", "text beside a call"): "text before a call is a preamble upstream, reasoning in the template",
    ("gpt_oss_medium_reasoning", "reasoned text beside a call"): "text before a call is a preamble upstream",
}
"""Where upstream's own render differs and no rewrite of messages can change it, by renderer and conversation."""


def differing(case, resolved, tools):
    """Names of conversations whose ids differ from the template's, without those that are known to."""
    out = []
    for name, messages, opener in oracle.conversations():
        expected = oracle.expected_ids(case, messages, tools, opener)
        known = {(case.renderer, name.removesuffix(", no opener")), (_family(case.renderer), name.removesuffix(", no opener"))}
        if expected is None or known & KNOWN.keys():
            continue
        if resolved.render_ids(messages, tools=tools, add_generation_prompt=opener) != expected:
            out.append(name)
    return out


def _family(renderer):
    from rllm_renderer_tinker.catalog import family

    return {"qwen3_8": "qwen3_8_xhigh_reasoning", "gpt_oss": "gpt_oss_medium_reasoning"}.get(family(renderer), family(renderer))


@pytest.mark.parametrize("tools", [None, shapes.TOOLS], ids=["no tools", "tools"])
def test_render_equals_the_template(templated, renderer_of, tools):
    assert not differing(templated, renderer_of(templated.renderer, templated.model), tools)


@pytest.mark.whole
@pytest.mark.parametrize("variant", oracle.VARIANTS, ids=str)
def test_variants_equal_their_templates(variant, renderer_of):
    resolved = renderer_of(variant.renderer, variant.model)
    for tools in (None, shapes.TOOLS):
        assert not differing(variant, resolved, tools)


def test_known_differences_are_still_there(renderer_of):
    gone = []
    for (renderer, name), why in KNOWN.items():
        case = next((case for case in oracle.CASES if case.renderer == renderer), None)
        if case is None:
            continue
        try:
            resolved = renderer_of(renderer, case.model)
        except pytest.skip.Exception:
            continue
        messages, opener = next((m, o) for n, m, o in oracle.conversations() if n == name)
        if resolved.render_ids(messages, add_generation_prompt=opener) == oracle.expected_ids(case, messages, None, opener):
            gone.append((renderer, name, why))
    assert gone in ([], [g for g in gone if g[0] == "deepseekv3_thinking"])  # which 0.4 doesn't have


def test_render_and_render_ids_agree_and_attribute(case, resolved):
    for tools in (None, shapes.TOOLS):
        for _, messages, opener in oracle.conversations():
            try:
                ids = resolved.render_ids(messages, tools=tools, add_generation_prompt=opener)
            except Exception as error:
                with pytest.raises(type(error)):
                    resolved.render(messages, tools=tools, add_generation_prompt=opener)
                continue
            out = resolved.render(messages, tools=tools, add_generation_prompt=opener)
            assert out.token_ids == ids
            assert len(out.message_indices) == len(out.sampled_mask) == len(ids)
            for index, sampled in zip(out.message_indices, out.sampled_mask, strict=True):
                assert index is None or -1 <= index < len(messages)
                if sampled:
                    assert messages[index]["role"] == "assistant"


def test_sampled_ids_are_those_behind_the_opener(case, resolved):
    opening = resolved.render_ids(shapes.OPENING, add_generation_prompt=True)
    out = resolved.render([*shapes.OPENING, shapes.TEXT])
    words = oracle.tokenizer(case.model).decode([t for t, s in zip(out.token_ids, out.sampled_mask, strict=True) if s])
    assert shapes.LAST_WORDS in words
    first = out.sampled_mask.index(True)
    finished = oracle.expected_ids(case, [*shapes.OPENING, shapes.TEXT], None, False) or opening
    merged = finished[: len(opening)] != opening  # the template's finished turn doesn't begin with its own opener
    assert out.token_ids[:first] == opening[:first] or merged


def test_each_message_has_its_ids(case, resolved):
    messages = [*shapes.OPENING, shapes.TEXT, shapes.user("And lids?")]
    out = resolved.render(messages, add_generation_prompt=True)
    decode = oracle.tokenizer(case.model).decode
    for index, message in enumerate(messages):
        own = decode([t for t, i in zip(out.token_ids, out.message_indices, strict=True) if i == index])
        assert message["content"] in own
    assert out.message_indices[-1] == -1


def test_tools_that_are_not_supported_are_refused_by_type(renderer_of):
    from rllm_renderer_core import UnsupportedToolsError

    llama = renderer_of("llama3", "meta-llama/Llama-3.1-8B-Instruct")
    with pytest.raises(UnsupportedToolsError, match="llama3"):
        llama.render_ids(shapes.OPENING, tools=shapes.TOOLS)
    with pytest.raises(UnsupportedToolsError, match="message 2"):
        llama.render_ids([*shapes.OPENING, shapes.ONE_CALL])
    with pytest.raises(UnsupportedToolsError, match="message 2"):
        llama.render_ids([*shapes.OPENING, shapes.ONE])


def test_a_declaration_without_what_the_format_prints_is_refused_with_its_index(renderer_of):
    from rllm_renderer_core import ToolError

    deepseek = renderer_of("deepseekv3", "deepseek-ai/DeepSeek-V3.1")
    with pytest.raises(ToolError, match=r"tool 1.*'description'"):
        deepseek.render_ids(shapes.OPENING, tools=[shapes.TOOLS[0], {"name": "bare", "parameters": {"type": "object"}}])


def test_declarations_keep_text_that_is_not_ascii(renderer_of):
    case = next(case for case in oracle.CASES if case.renderer == "qwen3")
    tools = [{"type": "function", "function": {"name": "such", "description": "Größe 日本", "parameters": {"type": "object"}}}]
    ids = renderer_of("qwen3", case.model).render_ids(shapes.OPENING, tools=tools)
    assert ids == oracle.expected_ids(case, shapes.OPENING, tools, False)
