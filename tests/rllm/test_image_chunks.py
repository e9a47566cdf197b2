"""Bridges and parses of prompts that have the chunks of images among their ids."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import real_tokenizers
import rllm_renderer_rllm as rllm
from rllm_renderer_rllm.messages import without_images


@dataclass(frozen=True)
class TextChunk:
    tokens: tuple[int, ...]

    @property
    def length(self):
        return len(self.tokens)


@dataclass(frozen=True)
class ImageChunk:
    length: int = 6


MODEL = "Qwen/Qwen3-8B"
ASKED = [{"role": "user", "content": "How many lids?"}]
IMAGES = (ImageChunk(), {"type": "image", "data": "", "expected_tokens": 6})


@pytest.fixture(scope="module")
def renderer():
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    return rllm.get_renderer(MODEL, real_tokenizers.load(MODEL))


@pytest.mark.parametrize("image", IMAGES, ids=["chunk", "json"])
@pytest.mark.parametrize("form", ["ids", "chunks"])
def test_a_bridge_keeps_the_image_and_adds_what_it_adds_without(renderer, image, form):
    prompt, sampled = renderer.render_ids(ASKED, add_generation_prompt=True), renderer.tokenizer.encode("Two.<|im_end|>")
    whole = renderer.bridge_to_next_turn(prompt, sampled, ASKED).token_ids
    given = (
        [*prompt[:3], image, *prompt[3:]]
        if form == "ids"
        else [TextChunk(tuple(prompt[:3])), image, TextChunk(tuple(prompt[3:]))]
    )
    wanted = [*whole[:3], image, *whole[3:]]
    assert renderer.bridge_to_next_turn(given, sampled, ASKED).token_ids == wanted


def test_a_decline_is_one_behind_an_image_too(renderer):
    assert renderer.bridge_to_next_turn([1, ImageChunk()], [2], [{"role": "assistant", "content": "No."}]) is None


def test_what_a_prompt_opens_is_seen_behind_an_image(renderer):
    prompt = renderer.render_ids(ASKED, add_generation_prompt=True)
    opened = [*prompt, *renderer.tokenizer.encode("<think>\n")]
    sampled = renderer.tokenizer.encode("Two.\n</think>\n\nThree.<|im_end|>")
    for given in (opened, [*opened[:3], ImageChunk(), *opened[3:]]):
        parsed = renderer.parse_response(sampled, prompt_ids=given)
        assert (parsed.reasoning_content, parsed.content) == ("Two.", "Three.")


@pytest.mark.parametrize("prompt", [[1, 2], (1, 2), [], None, "ab", 7], ids=repr)
def test_what_has_no_image_stays_the_object_it_is(prompt):
    assert without_images(prompt) is prompt
