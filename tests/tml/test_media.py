"""Images and audio: as many placeholders as positions, beside upstream's own spans; what isn't carried is refused by type."""

from __future__ import annotations

import base64
import io
import itertools
import pickle
import struct
import wave

import inkling
import pytest
import shapes
import tml_oracle as oracle

from rllm_renderer_core import BridgeDeclined, UnsupportedContentError

PIL = pytest.importorskip("PIL.Image", reason="not proved: images, without pillow")
QWEN, KIMI = "Qwen/Qwen3.5-9B", "moonshotai/Kimi-K2.6"
PADS = {QWEN: "<|image_pad|>", KIMI: "<|media_pad|>"}
RENDERERS = {QWEN: "Qwen35", KIMI: "KimiK25", inkling.MODEL: "v0"}
PICTURE = PIL.new("RGB", (64, 48), "red")
TEXT = {"type": "text", "text": " What is\n"}


def resolved(model):
    return oracle.resolved(RENDERERS[model], model)


def uri():
    out = io.BytesIO()
    PICTURE.save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def sound():
    """Half a second as a WAV file, in base64."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(b"".join(struct.pack("<h", 40 * (at % 50)) for at in range(8000)))
    return base64.b64encode(out.getvalue()).decode()


IMAGE = {"type": "image_url", "image_url": {"url": uri()}}
AUDIO = {"type": "input_audio", "input_audio": {"data": sound(), "format": "wav"}}


def user(*parts):
    return {"role": "user", "content": list(parts)}


CONVERSATIONS = {
    "in the middle": [user(TEXT, IMAGE, {"type": "text", "text": "this? "})],
    "alone": [user(IMAGE)],
    "two": [{"role": "system", "content": "Be brief."}, user(IMAGE, TEXT, TEXT, IMAGE)],
    "in the history": [user(IMAGE, TEXT), {"role": "assistant", "content": "A jar."}, shapes.user("Sure?")],
    "in a result": [
        shapes.user("Look."),
        {"role": "assistant", "content": "", "tool_calls": [shapes.call("look", "functions.look:0", "tea")]},
        {"role": "tool", "tool_call_id": "functions.look:0", "name": "look", "content": [IMAGE]},
    ],
}


def collapsed(ids, pad):
    """Each run of placeholders as one, which is what a template prints."""
    return [token for token, run in itertools.groupby(ids) for token in (run if token != pad else [token])]


@pytest.mark.parametrize(
    "model, name", [case for case in itertools.product(PADS, CONVERSATIONS) if case != (KIMI, "in a result")]
)
def test_an_image_stands_where_the_template_has_it(model, name):
    messages = CONVERSATIONS[name]
    tokenizer = oracle.tokenizer(model)
    given = [
        {**message, "tool_calls": [{"function": {"name": "look", "arguments": {"q": "tea"}}, "id": "functions.look:0"}]}
        if "tool_calls" in message
        else message
        for message in messages
    ]
    text = tokenizer.apply_chat_template(given, add_generation_prompt=True, tokenize=False)
    ids = resolved(model).render_ids(messages, add_generation_prompt=True)
    pad = tokenizer.convert_tokens_to_ids(PADS[model])
    assert collapsed(ids, pad) == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) > len(collapsed(ids, pad)) + 4


def test_inkling_writes_each_part_as_a_message():
    tokenizer = oracle.tokenizer(inkling.MODEL)
    out = resolved(inkling.MODEL).render([user(TEXT, IMAGE, AUDIO)], add_generation_prompt=True)
    image, audio = "<|unused_200054|>" * 4, "<|unused_200053|>" * 10
    assert tokenizer.decode(out.token_ids).partition("0.9<|end_message|>")[2] == (
        "<|message_user|><|content_text|> What is\n<|end_message|>"
        f"<|message_user|><|content_image|>{image}<|end_message|>"
        f"<|message_user|><|content_audio_input|>{audio}<|audio_end|><|end_message|><|message_model|>"
    )


@pytest.mark.parametrize("model", RENDERERS)
def test_the_data_has_the_same_ids_and_the_media_between_them(model):
    out = resolved(model).render(CONVERSATIONS["in the middle"], add_generation_prompt=True)
    data = pickle.loads(pickle.dumps(out.multi_modal_data))
    own = [getattr(span.span, "int_tokens", None) for span in data.spans]
    assert [ids is None for ids in own] == [False, True, False]
    (_, picture, _) = (span.span for span in data.spans)
    assert out.token_ids == [*own[0], *[out.token_ids[len(own[0])]] * picture.num_tokens, *own[2]]
    assert picture.location == IMAGE["image_url"]["url"] and (picture.width, picture.height) == PICTURE.size
    assert len(out.message_indices) == len(out.sampled_mask) == len(out.token_ids)
    assert resolved(model).render([shapes.user("ping")]).multi_modal_data is None


def test_tinkers_chunks():
    pytest.importorskip("tinker", reason="not proved: chunks of a sampler's prompt, without tinker")
    out = resolved(inkling.MODEL).render([user(TEXT, IMAGE, AUDIO)], add_generation_prompt=True)
    chunks = out.multi_modal_data.chunks
    kinds = [type(chunk).__name__ for chunk in chunks]
    assert kinds == ["EncodedTextChunk", "ImageChunk", "EncodedTextChunk", "DmelChunk", "EncodedTextChunk"]
    assert sum(chunk.length for chunk in chunks) == len(out.token_ids)


def test_a_picture_as_an_object_is_the_same():
    ids = [resolved(QWEN).render_ids([user(image)]) for image in (IMAGE, {"type": "image", "image": PICTURE})]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    "model, message",
    [
        (QWEN, user({"type": "image_url", "image_url": {"url": "https://example.org/jar.png"}})),
        (QWEN, user({"type": "image", "image": "/etc/hostname"})),
        (QWEN, user(AUDIO)),
        (KIMI, CONVERSATIONS["in a result"][-1]),
        (QWEN, {"role": "system", "content": [IMAGE]}),
        (inkling.MODEL, user({"type": "audio_url", "audio_url": {"url": "https://example.org/a.wav"}})),
        (inkling.MODEL, user({"type": "video", "video": "x"})),
        ("Qwen/Qwen3-8B", user(IMAGE)),
        ("zai-org/GLM-5.2", user(IMAGE)),  # upstream writes that it can't see it
    ],
)
def test_what_is_not_carried_is_refused(model, message):
    name = RENDERERS.get(model) or ("Qwen3" if "Qwen3" in model else "Glm52")
    with pytest.raises(UnsupportedContentError) as refused:
        oracle.resolved(name, model).render_ids([message, shapes.user("ping")], add_generation_prompt=True)
    assert refused.value.index == 0


@pytest.mark.parametrize("part", [IMAGE, AUDIO], ids=["image", "audio"])
def test_a_bridge_declines_new_media_and_goes_on_behind_old(part):
    renderer = resolved(inkling.MODEL)
    prompt = renderer.render_ids([user(part, TEXT)], add_generation_prompt=True)
    ids = oracle.tokenizer(inkling.MODEL).encode("<|content_text|>ok<|end_message|>", add_special_tokens=False)
    sampled = [*ids, renderer.get_stop_token_ids()[0]]
    declined = renderer.try_bridge(prompt, sampled, [user(part)])
    assert isinstance(declined, BridgeDeclined) and "media" in declined.reason
    out = renderer.try_bridge(prompt, sampled, [shapes.user("Sure?")])
    assert out.token_ids[: len(prompt) + len(sampled)] == prompt + sampled


@pytest.mark.parametrize("model", [QWEN, "Qwen/Qwen3-8B"])
def test_another_kind_of_span_is_an_error_of_its_own_type(model):
    from rllm_renderer_tml.media import Media
    from tml_renderers import chat

    with pytest.raises(UnsupportedContentError, match="PaddingTokenSpan"):
        Media(RENDERERS.get(model, "Qwen3"), oracle.tokenizer(model)).ids_of(chat.PaddingTokenSpan(3))
