"""Options on prime: mapped to the family's template field, or refused by name; and nothing depends on the tokenizer's name."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import real_tokenizers
import shapes

from rllm_renderer_core import OptionError, TokenizerError, resolve

Prime = Callable[..., Any]
Tokenizers = Callable[[str], Any]
OPEN, CLOSED = "<think>\n", "<think>\n\n</think>\n\n"


def opener(renderer: Any) -> str:
    """What stands behind the last role tag of a prompt."""
    ids = renderer.render_ids([shapes.user("Hi")], add_generation_prompt=True)
    return str(renderer.tokenizer.decode(ids)).rpartition("assistant\n")[2]


@pytest.mark.parametrize(
    ("model", "on", "off"),
    [
        ("Qwen/Qwen3-8B", "", CLOSED),
        ("Qwen/Qwen3.5-9B", OPEN, CLOSED),
        ("Qwen/Qwen3.5-0.8B", OPEN, CLOSED),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", OPEN, "<think></think>"),
    ],
)
def test_thinking_is_the_templates_switch(model: str, on: str, off: str, prime: Prime) -> None:
    assert opener(prime(model, thinking=True)) == on
    assert opener(prime(model, thinking=False)) == off
    same = prime(model, chat_template_kwargs={"enable_thinking": False})
    assert opener(same) == off


@pytest.mark.parametrize(
    ("model", "option", "named"),
    [
        ("meta-llama/Llama-3.2-3B-Instruct", {"thinking": True}, "thinking"),
        ("openai/gpt-oss-20b", {"thinking": False}, "thinking"),
        ("deepseek-ai/DeepSeek-V3", {"thinking": True}, "thinking"),
        ("Qwen/Qwen3-4B-Instruct-2507", {"thinking": True}, "thinking"),
        ("Qwen/Qwen3-4B-Instruct-2507", {"chat_template_kwargs": {"enable_thinking": False}}, "thinking"),
        ("Qwen/Qwen3-8B", {"chat_template_kwargs": {"add_vision_id": True}}, "chat_template_kwargs"),
        ("Qwen/Qwen3-8B", {"chat_template_kwargs": {"thinking_retention": "all"}}, "chat_template_kwargs"),
        ("Qwen/Qwen3.5-9B", {"chat_template_kwargs": {"image_cache_max": 1}}, "chat_template_kwargs"),
        ("Qwen/Qwen3.8-27B", {"chat_template_kwargs": {"reasoning_effort": "utmost"}}, "chat_template_kwargs"),
        ("Qwen/Qwen3-8B", {"thinking": True, "chat_template_kwargs": {"enable_thinking": False}}, "thinking"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"chat_template_kwargs": {"low_effort": True}}, "chat_template_kwargs"),
        ("Qwen/Qwen3-8B", {"image_processor": object()}, "image_processor"),
    ],
)
def test_an_option_that_cant_be_honoured_is_an_error_that_names_it(
    model: str, option: dict[str, Any], named: str, tokenizer_of: Tokenizers
) -> None:
    with pytest.raises(OptionError) as caught:
        resolve(model, tokenizer_of(model), backend="prime", parity="off", **option)
    assert caught.value.option == named and caught.value.backend == "prime"
    assert caught.value.fix and named in str(caught.value)


@pytest.mark.parametrize(
    ("model", "variables"),
    [
        ("Qwen/Qwen3.6-35B-A3B", {"preserve_thinking": True}),
        ("Qwen/Qwen3.8-27B", {"preserve_thinking": False}),
        ("Qwen/Qwen3.8-27B", {"reasoning_effort": "low"}),
        ("zai-org/GLM-5", {"clear_thinking": False}),
        ("MiniMaxAI/MiniMax-M2", {"model_identity": "You are a tree."}),
        ("meta-llama/Llama-3.2-3B-Instruct", {"date_string": "26 Jul 2024", "tools_in_user_message": False}),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", {"low_effort": True}),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"truncate_history_thinking": False}),
    ],
)
def test_template_variables_reach_the_template(model: str, variables: dict[str, Any], tokenizer_of: Tokenizers) -> None:
    tokenizer = tokenizer_of(model)
    renderer = resolve(model, tokenizer, backend="prime", parity="off", chat_template_kwargs=variables)
    plain = resolve(model, tokenizer, backend="prime", parity="off")
    text_of = shapes.template_text(tokenizer, **variables)
    reasoned = {**shapes.TEXT, "reasoning_content": "Weighing it."}
    differs = False
    for messages in ([shapes.user("Hi")], [*shapes.OPENING, reasoned, shapes.user("And lids?")]):
        for tools in (None, shapes.TOOLS):
            ids = renderer.render_ids(messages, tools=tools, add_generation_prompt=True)
            assert ids == shapes.encode(tokenizer, text_of(messages, tools, True))
            differs = differs or ids != plain.render_ids(messages, tools=tools, add_generation_prompt=True)
    assert differs
    if "low_effort" in variables:
        return  # the hint stands in the last query: a new one moves it, and upstream declines
    prompt = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    closed = [*shapes.encode(tokenizer, "x</think>four"), renderer.get_stop_token_ids()[0]]
    stop = {"zai-org/GLM-5": shapes.encode(tokenizer, "x</think>four<|user|>")}.get(model, closed)
    assert renderer.bridge_to_next_turn(prompt, stop, [shapes.user("And lids?")]) is not None, "the core decides retention"


# Names and folders


@pytest.fixture(scope="module")
def in_a_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``in_a_folder(model, template=)``: the tokenizer as a user has it, saved to a folder and loaded from there; once each."""
    from transformers import PreTrainedTokenizerFast

    @functools.cache
    def saved(model: str, *, template: bool) -> Any:
        folder = str(tmp_path_factory.mktemp("checkpoint"))
        real_tokenizers.load(model, template=template).save_pretrained(folder)
        loaded = PreTrainedTokenizerFast.from_pretrained(folder)
        assert loaded.name_or_path == folder
        return loaded

    return saved


FOLDERS = [("Qwen/Qwen3.5-0.8B", CLOSED), pytest.param("Qwen/Qwen3.5-9B", OPEN, marks=pytest.mark.whole)]


@pytest.mark.parametrize("template", [True, False], ids=["template", "no template"])
@pytest.mark.parametrize(("model", "expected"), FOLDERS)
def test_the_default_follows_the_model_and_not_the_folder(
    model: str, expected: str, template: bool, in_a_folder: Callable[..., Any], tokenizer_of: Tokenizers
) -> None:
    tokenizer_of(model)
    tokenizer = in_a_folder(model, template=template)
    folder = tokenizer.name_or_path
    renderer = resolve(model, tokenizer, backend="prime", parity="off")
    assert opener(renderer) == expected
    assert tokenizer.name_or_path == folder


@pytest.mark.parametrize(("model", "expected"), FOLDERS)
def test_the_default_of_a_fine_tune_follows_its_template(
    model: str, expected: str, in_a_folder: Callable[..., Any], tokenizer_of: Tokenizers
) -> None:
    tokenizer_of(model)
    tokenizer = in_a_folder(model, template=True)
    for name in (tokenizer.name_or_path, "me/sft"):
        assert opener(resolve(name, tokenizer, renderer_family="qwen3.5")) == expected
    bare = in_a_folder(model, template=False)
    assert opener(resolve(bare.name_or_path, bare, renderer_family="qwen3.5")) == OPEN, "the family's default"


def test_the_tokenizers_name_never_counts_more_than_the_model(tokenizer_of: Tokenizers) -> None:
    """Upstream looks up thinking by ``name_or_path``, and the variants of Nemotron and Gemma."""
    tokenizer_of("Qwen/Qwen3.5-9B")
    other = real_tokenizers.load("Qwen/Qwen3.5-9B", name_or_path="Qwen/Qwen3.5-0.8B", template=False)
    assert opener(resolve("Qwen/Qwen3.5-9B", other, backend="prime", parity="off")) == OPEN
    nano = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
    tokenizer_of(nano)
    mislabelled = real_tokenizers.load(nano, name_or_path=nano, template=False)
    options = {"backend": "prime", "chat_template_kwargs": {"low_effort": True}}
    superior = resolve("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", mislabelled, **options)
    assert "{reasoning effort: low}" in superior.tokenizer.decode(superior.render_ids([shapes.user("Hi")]))


def test_gemma_variants_follow_the_model(tokenizer_of: Tokenizers) -> None:
    tokenizer_of("google/gemma-4-E2B-it")
    for model, prefilled in (("google/gemma-4-31B-it", True), ("google/gemma-4-E2B-it", False)):
        for name in ("google/gemma-4-31B-it", "google/gemma-4-E2B-it", "me/sft"):
            tokenizer = real_tokenizers.load("google/gemma-4-E2B-it", name_or_path=name, template=False)
            renderer = resolve(model, tokenizer, backend="prime", parity="off")
            text = tokenizer.decode(renderer.render_ids([shapes.user("Hi")], add_generation_prompt=True))
            assert text.endswith("<|channel>thought\n<channel|>") is prefilled


def test_the_callers_tokenizer_is_the_one_that_is_used_and_isnt_changed(tokenizer_of: Tokenizers) -> None:
    tokenizer_of("Qwen/Qwen3.5-9B")
    tokenizer = real_tokenizers.load("Qwen/Qwen3.5-9B", name_or_path="me/step_40")
    before = copy.deepcopy({key: value for key, value in vars(tokenizer).items() if key != "_tokenizer"})
    renderer = resolve("Qwen/Qwen3.5-9B", tokenizer)
    renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    assert renderer.upstream.upstream._tokenizer is tokenizer
    assert repr({key: value for key, value in vars(tokenizer).items() if key != "_tokenizer"}) == repr(before)


def test_the_wrong_tokenizer_is_a_typed_error(tokenizer_of: Tokenizers) -> None:
    with pytest.raises(TokenizerError, match="isn't one of llama-3") as caught:
        resolve("me/model", tokenizer_of("Qwen/Qwen3-8B"), renderer_family="llama-3")
    assert "renderer_family" in (caught.value.fix or "")


@pytest.mark.parametrize("options", [{}, {"thinking": False}, {"renderer_family": "qwen3.5"}])
def test_pickling_keeps_ids_whatever_the_tokenizer_is_called(options: dict[str, Any], tokenizer_of: Tokenizers) -> None:
    tokenizer_of("Qwen/Qwen3.5-0.8B")
    tokenizer = real_tokenizers.load("Qwen/Qwen3.5-0.8B", name_or_path="me/step_40")
    renderer = resolve("Qwen/Qwen3.5-0.8B", tokenizer, **options)
    again = pickle.loads(pickle.dumps(renderer))
    conversation = [*shapes.OPENING, shapes.TEXT, shapes.user("And?")]
    assert again.resolution == renderer.resolution
    for ending in (False, True):
        expected = renderer.render_ids(conversation, tools=shapes.TOOLS, add_generation_prompt=ending)
        assert again.render_ids(conversation, tools=shapes.TOOLS, add_generation_prompt=ending) == expected


# Media


class Processor:
    """An image processor of Qwen's kind, without pixels: two by four patches for each image, merged two by two."""

    merge_size = 2

    def __call__(self, images: Any, return_tensors: str) -> dict[str, Any]:
        import numpy

        return {"image_grid_thw": numpy.array([[1, 2, 4]] * len(images)), "pixel_values": numpy.zeros((8, 3))}


def test_images_need_a_processor(tokenizer_of: Tokenizers) -> None:
    pil = pytest.importorskip("PIL.Image")
    from rllm_renderer_core import UnsupportedContentError

    model = "Qwen/Qwen3.5-9B"
    tokenizer = tokenizer_of(model)
    part = {"type": "image", "image": pil.new("RGB", (8, 8))}
    seen = [*shapes.OPENING[:1], {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}]
    with pytest.raises(UnsupportedContentError) as caught:
        resolve(model, tokenizer, backend="prime", parity="off").render_ids(seen)
    assert caught.value.index == 1
    renderer = resolve(model, tokenizer, backend="prime", parity="off", image_processor=Processor())
    out = renderer.render(seen, add_generation_prompt=True)
    assert tokenizer.decode(out.token_ids).count("<|image_pad|>") == 2
    assert out.multi_modal_data.mm_placeholders["image"][0].length == 2
    sampled = shapes.encode(tokenizer, "x\n</think>\n\nA jar.<|im_end|>")
    assert renderer.bridge_to_next_turn(out.token_ids, sampled, [shapes.user("And?")]) is None, "its image data is not at hand"
    text = renderer.render_ids(shapes.OPENING, add_generation_prompt=True)
    bridged = renderer.bridge_to_next_turn(text, sampled, seen[1:])
    assert bridged.multi_modal_data.mm_placeholders["image"][0].offset == bridged.token_ids.index(
        tokenizer.convert_tokens_to_ids("<|image_pad|>")
    )
