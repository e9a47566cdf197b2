"""Images: rendered where upstream can, refused by type where not, never dropped."""

import base64
import io

import pytest
import real_tokenizers
import shapes

from rllm_renderer_core import BridgeDeclined, OptionError, UnsupportedContentError, resolve

PIL = pytest.importorskip("PIL.Image")
MODEL = "Qwen/Qwen3.5-9B"


class Processor:
    """As many pieces as a picture of 28 pixels a piece has: the part of a real processor that upstream asks."""

    merge_size = 2
    patch_size = 14

    def get_number_of_image_patches(self, height, width, images_kwargs=None):
        return (height // self.patch_size) * (width // self.patch_size)


PICTURE = PIL.new("RGB", (56, 84), "red")


def data_uri():
    out = io.BytesIO()
    PICTURE.save(out, format="PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def shown(image):
    return [{"role": "user", "content": [{"type": "text", "text": "What is "}, image, {"type": "text", "text": "this?"}]}]


@pytest.fixture(scope="module")
def vision():
    return resolve(MODEL, real_tokenizers.load(MODEL), backend="tinker", image_processor=Processor(), parity="off")


FORMS = [
    {"type": "image", "image": PICTURE},
    {"type": "image_url", "image_url": {"url": data_uri()}},
    {"type": "image_url", "image_url": data_uri()},
]


@pytest.mark.parametrize("image", FORMS, ids=["picture", "OpenAI's", "address alone"])
def test_an_image_is_as_many_placeholders_as_it_takes_positions(vision, image):
    out = vision.render(shown(image), add_generation_prompt=True)
    tokenizer = real_tokenizers.load(MODEL)
    text = "<|im_start|>user\nWhat is <|vision_start|>" + "<|image_pad|>" * 6 + "<|vision_end|>this?<|im_end|>\n"
    assert tokenizer.decode(out.token_ids) == text + "<|im_start|>assistant\n<think>\n"
    assert out.token_ids == vision.render_ids(shown(image), add_generation_prompt=True)
    assert len(out.message_indices) == len(out.sampled_mask) == len(out.token_ids) == out.multi_modal_data.length
    assert vision.render(shapes.OPENING).multi_modal_data is None


def test_the_picture_itself_comes_back(vision):
    chunks = vision.render(shown(FORMS[0])).multi_modal_data.chunks
    (image,) = [chunk for chunk in chunks if hasattr(chunk, "expected_tokens")]
    assert image.expected_tokens == 6
    assert PIL.open(io.BytesIO(image.data)).size == PICTURE.size


@pytest.mark.parametrize("address", ["https://example.com/a.png", "file:///etc/hostname", "/etc/hostname"])
def test_nothing_is_fetched_while_rendering(vision, address):
    with pytest.raises(UnsupportedContentError, match=r"message 0 .*(?s:.*)data: URL") as caught:
        vision.render_ids(shown({"type": "image_url", "image_url": {"url": address}}))
    assert caught.value.index == 0


def test_other_media_are_refused_by_type(vision):
    with pytest.raises(UnsupportedContentError, match="input_audio"):
        vision.render_ids(shown({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}))


def test_a_missing_processor_is_a_typed_error():
    renderer = resolve(MODEL, real_tokenizers.load(MODEL), backend="tinker", parity="off")
    with pytest.raises(UnsupportedContentError, match="image_processor") as caught:
        renderer.render_ids(shown(FORMS[0]))
    assert caught.value.index == 0


def test_a_text_renderer_refuses_images_and_the_processor():
    tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
    renderer = resolve("Qwen/Qwen3-8B", tokenizer, backend="tinker", parity="off")
    with pytest.raises(UnsupportedContentError, match="text alone"):
        renderer.render_ids(shown(FORMS[0]))
    with pytest.raises(OptionError, match="image_processor"):
        resolve("Qwen/Qwen3-8B", tokenizer, backend="tinker", image_processor=Processor(), parity="off")


def test_bridges_over_images_are_declined(vision):
    stop = vision.get_stop_token_ids()
    sampled = [*shapes.encode(real_tokenizers.load(MODEL), "mull\n</think>\n\nA square."), *stop]
    prompt = vision.render_ids(shown(FORMS[0]), add_generation_prompt=True)
    out = vision.try_bridge(prompt, sampled, [shapes.user("Sure?")])
    assert isinstance(out, BridgeDeclined) and "image" in out.reason
    plain = vision.render_ids(shapes.OPENING, add_generation_prompt=True)
    assert isinstance(vision.try_bridge(plain, sampled, shown(FORMS[0])), BridgeDeclined)
    assert vision.bridge_to_next_turn(plain, sampled, [shapes.user("Sure?")])


def test_a_training_sequence_with_an_image_is_a_datum_with_its_chunk(vision):
    """The picture stands in the datum where its placeholders stand in the ids; only what is said behind it is trained."""
    from rllm_renderer_tinker.datum import to_datum
    from rllm_renderer_training import supervised

    said = {"role": "assistant", "content": "A red one.", "reasoning_content": "Red."}
    (example,) = supervised(vision, [*shown(FORMS[0]), said])
    prompt = vision.render_ids(shown(FORMS[0]), add_generation_prompt=True)
    assert example.token_ids[: len(prompt)] == prompt and example.weights[: len(prompt)] == [0.0] * len(prompt)
    datum = to_datum(example)
    (image,) = [chunk for chunk in datum.model_input.chunks if hasattr(chunk, "expected_tokens")]
    at = 0
    for chunk in datum.model_input.chunks:
        if chunk is image:
            break
        at += chunk.length
    assert image.length == 6 and at == prompt.index(real_tokenizers.load(MODEL).convert_tokens_to_ids("<|image_pad|>"))
    assert datum.model_input.length == len(example.token_ids) - 1
    targets, weights = (datum.loss_fn_inputs[name].data for name in ("target_tokens", "weights"))
    trained = [token for token, weight in zip(targets, weights, strict=True) if weight]
    assert trained == example.token_ids[len(prompt) :]
