"""Text is tokenized at once between control tokens: blank lines at the edges of texts merge as in the chat template's ids."""

from __future__ import annotations

import functools

import pytest
import real_tokenizers
from rllm_renderer_template.parity.probes import OPENING

from rllm_renderer_core import BridgeDeclined, RenderedTokens, RendererError, resolve
from rllm_renderer_core.guards.span_encoding.joined import LAST, SpanEncoding
from rllm_renderer_core.normal_form.tokenizer import lock_of

MODEL = "Qwen/Qwen3-4B-Instruct-2507"
BLANK = {"role": "assistant", "content": "\n\nfour\n\n"}
LIDS = {"role": "user", "content": "\n\nAnd lids?"}


@functools.cache
def tokenizer_of(model=MODEL):
    why = real_tokenizers.missing(model)
    if why:
        pytest.skip(why)
    return real_tokenizers.load(model)


def template_ids(messages, opener=True):
    return list(tokenizer_of().apply_chat_template(messages, add_generation_prompt=opener, tokenize=True, return_dict=False))


def apart(messages, tools=None, add_generation_prompt=False):
    """Qwen3's format with each header encoded apart from its text, as upstreams do."""
    encode = functools.partial(tokenizer_of().encode, add_special_tokens=False)
    ids = []
    for message in messages:
        ids += encode(f"<|im_start|>{message['role']}\n") + encode(message["content"] + "<|im_end|>\n")
    return ids + (encode("<|im_start|>assistant\n") if add_generation_prompt else [])


def joined(render=apart):
    return SpanEncoding(render, tokenizer_of(), lock_of(tokenizer_of()))


@pytest.mark.parametrize("backend", ["prime", "tinker", "tml"])
@pytest.mark.parametrize("opener", [True, False])
def test_blank_lines_at_the_edges_of_texts_are_as_in_the_template(backend, opener):
    try:
        renderer = resolve(MODEL, tokenizer_of(), backend=backend, parity="off", detect=False)
    except RendererError as error:
        pytest.skip(f"not proved for {backend}: {str(error).splitlines()[0]}")
    messages = [*OPENING, BLANK, LIDS] if opener else [*OPENING, BLANK]
    expected = template_ids(messages, opener)
    assert renderer.render_ids(messages, add_generation_prompt=opener) == expected
    out = renderer.render(messages, add_generation_prompt=opener)
    assert out.token_ids == expected
    if out.message_indices is not None:
        assert len(out.message_indices) == len(out.sampled_mask) == len(expected)
        at = expected.index(tokenizer_of().encode("four", add_special_tokens=False)[0])
        assert out.message_indices[at] == 2 and out.sampled_mask[at] is True
        assert out.sampled_mask[at - 1] is False  # one id for the header's newline, which is given, and the text's


def test_without_white_space_at_an_edge_nothing_is_tokenized_again():
    calls = []

    def render(messages, **more):
        calls.append(messages)
        return apart(messages, **more)

    plain = [*OPENING, {"role": "user", "content": "And\n\nlids?"}]
    ids = apart(plain, add_generation_prompt=True)
    assert joined(render).ids(ids, plain) is ids and not calls


def test_a_renderer_that_tokenizes_at_once_is_asked_once_and_left_alone():
    calls = []

    def at_once(messages, tools=None, add_generation_prompt=False):
        calls.append(messages)
        return template_ids(messages, add_generation_prompt)

    mine = joined(at_once)
    messages = [*OPENING, BLANK, LIDS]
    ids = at_once(messages)
    before = len(calls)
    assert mine.ids(ids, messages) is ids
    learned = len(calls)
    assert learned > before and mine.ids(ids, messages) is ids and len(calls) == learned


def test_what_doesnt_stand_for_its_text_stays():
    """Ids of a marker that was spelled in ordinary tokens don't become the marker, though their text would."""
    mine = joined()
    encode = tokenizer_of().encode
    spelled = [token for part in ("<|", "im", "_end", "|>") for token in encode(part, add_special_tokens=False)]
    ids = [*encode("<|im_start|>user\n"), *encode("\n\n"), *spelled, *encode("<|im_end|>\n")]
    assert mine.ids(ids, [{"role": "user", "content": "\n\n<|im_end|>"}]) == ids


def test_only_what_a_bridge_adds_is_changed():
    renderer = resolve(MODEL, tokenizer_of(), backend="tinker", parity="off", detect=False)
    prompt = renderer.render_ids(OPENING, add_generation_prompt=True)
    encode = tokenizer_of().encode
    sampled = [*encode("\n\n", add_special_tokens=False), *encode("four", add_special_tokens=False), *encode("<|im_end|>")]
    out = renderer.try_bridge(prompt, sampled, [LIDS])
    assert not isinstance(out, BridgeDeclined)
    assert out.token_ids[: len(prompt + sampled)] == prompt + sampled
    whole = template_ids([*OPENING, {"role": "assistant", "content": "four"}, LIDS])
    assert out.token_ids[len(prompt + sampled) :] == whole[len(prompt + sampled) - 1 :]
    assert len(out.message_indices or out.token_ids) == len(out.token_ids)


def test_an_empty_block_of_reasoning_in_the_last_turn_is_one_text():
    """Qwen3.8 through tinker: its two newlines are one id, wherever the turn stands."""
    tokenizer = tokenizer_of("Qwen/Qwen3.8-27B")
    renderer = resolve("Qwen/Qwen3.8-27B", tokenizer, backend="tinker", parity="off", detect=False)
    ids = renderer.render_ids([*OPENING, {"role": "assistant", "content": "four"}])
    (break_,) = tokenizer.encode("\n\n", add_special_tokens=False)
    assert ids[ids.index(tokenizer.convert_tokens_to_ids("<think>")) + 1] == break_
    assert LAST in renderer._span_encoding._places


def test_a_tokenizer_without_a_template_says_nothing_of_how_text_is_tokenized():
    class Bare:
        def encode(self, text, **more):
            raise AssertionError("not called")

        decode = encode

    messages = [{"role": "user", "content": "\n\nhi"}]
    assert SpanEncoding(apart, Bare(), lock_of(Bare())).ids([1, 2], messages) == [1, 2]


def test_an_id_that_stands_for_several_is_sampled_where_they_all_are():
    encode = functools.partial(tokenizer_of().encode, add_special_tokens=False)
    head, text = encode("<|im_start|>assistant\n"), [*encode("\n\n"), *encode("four"), *encode("<|im_end|>")]
    ids = [*head, *text]
    mask = [False] * len(head) + [True] * len(text)
    out = joined().after_render(RenderedTokens(list(ids), [0] * len(ids), list(mask)), [BLANK])
    assert out.token_ids == encode("<|im_start|>assistant\n\n\nfour<|im_end|>")
    assert out.sampled_mask == [False] * len(head) + [True] * 2 and out.message_indices == [0] * len(out.token_ids)
