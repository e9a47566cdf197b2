"""A tokenizer that doesn't do its job is refused at ``resolve``, with its class and the cause; one that works is not."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest
import real_tokenizers
import toy

from rllm_renderer_core import TokenizerError, resolve
from rllm_renderer_core.guards.tokenizer_works import check_tokenizer

transformers = pytest.importorskip("transformers")
MODELS = real_tokenizers.here("Qwen/Qwen3-8B", "google/gemma-3-4b-it", "mistralai/Ministral-3-14B-Reasoning-2512")
DEEPSEEK = "deepseek-ai/DeepSeek-V3"


@pytest.mark.parametrize("model", MODELS)
def test_each_real_tokenizer_works(model):
    check_tokenizer(real_tokenizers.load(model))


@pytest.fixture(scope="module")
def deepseek(tmp_path_factory):
    """A folder with DeepSeek-V3's files, whose configuration names Llama's class as the published one does."""
    if why := real_tokenizers.missing(DEEPSEEK):
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("deepseek")
    settings = {"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<｜begin▁of▁sentence｜>"}
    settings |= {"eos_token": "<｜end▁of▁sentence｜>", "chat_template": real_tokenizers.load(DEEPSEEK).chat_template}
    (folder / "tokenizer.json").write_text(real_tokenizers.vocabulary(DEEPSEEK), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def test_deepseeks_files_loaded_as_a_llama_tokenizer_are_refused_and_the_fix_works(deepseek):
    loaded = transformers.AutoTokenizer.from_pretrained(deepseek)
    if loaded.decode(loaded.encode("a b", add_special_tokens=False)) == "a b":
        pytest.skip("this transformers loads them as they are")
    for backend in ("prime", "chat-template", "fireworks", None):
        with pytest.raises(TokenizerError, match=f"a {type(loaded).__name__}, changes text: .*'Add12345to") as caught:
            resolve(DEEPSEEK, loaded, backend=backend)
    assert "PreTrainedTokenizerFast.from_pretrained" in caught.value.fix
    check_tokenizer(transformers.PreTrainedTokenizerFast.from_pretrained(deepseek))


@pytest.mark.parametrize("backend", ["fireworks", "chat-template", None])
def test_mistral_commons_backend_is_refused_for_what_it_lacks(backend):
    common = pytest.importorskip("mistral_common")
    file = pathlib.Path(common.__file__).parent / "data" / "tekken_240911.json"
    tokenizer = transformers.MistralCommonBackend(str(file))
    with pytest.raises(TokenizerError, match="MistralCommonBackend has no get_added_vocab"):
        resolve("mistralai/Ministral-3-14B-Reasoning-2512", tokenizer, backend=backend)


def splitting(model):
    tokenizer = copy.copy(real_tokenizers.load(model))
    tokenizer.split_special_tokens = True
    return tokenizer


@pytest.mark.parametrize("model", MODELS)
def test_split_special_tokens_is_named_as_the_cause(model):
    with pytest.raises(TokenizerError, match=r"its special token '.+' as ordinary text, as its split_special_tokens is true"):
        check_tokenizer(splitting(model))


@pytest.mark.parametrize("backend", ["prime", "chat-template", "tinker"])
def test_it_is_named_on_each_backend_and_also_when_it_is_set_later(backend):
    tokenizer = splitting("Qwen/Qwen3-8B")
    tokenizer.split_special_tokens = False
    resolve("Qwen/Qwen3-8B", tokenizer, backend=backend)
    tokenizer.split_special_tokens = True
    with pytest.raises(TokenizerError, match="split_special_tokens is true"):
        resolve("Qwen/Qwen3-8B", tokenizer, backend=backend)


def test_a_prefix_space_of_sentencepiece_is_no_change():
    class Prefixed(toy.ToyTokenizer):
        sample = ""

        def encode(self, text, add_special_tokens=False):
            self.sample = text
            return [1]

        def decode(self, ids, skip_special_tokens=False):
            return self.prefix + self.sample

        def convert_tokens_to_ids(self, text):
            return None

    tokenizer = Prefixed()
    tokenizer.prefix = " "
    check_tokenizer(tokenizer)
    other = Prefixed()
    other.prefix = "  "
    with pytest.raises(TokenizerError, match="a Prefixed, changes text"):
        check_tokenizer(other)


def test_what_cant_be_asked_isnt_judged():
    check_tokenizer(toy.ToyTokenizer())
    check_tokenizer(object())
    check_tokenizer(None)
