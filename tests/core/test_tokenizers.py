"""Tokenizers that can't work: a TokenizerError that names what is missing, wherever it shows."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
import threading
import types

import pytest
import real_tokenizers
import toy
from plugin_source import plugin

from rllm_renderer_core import RendererError, TokenizerError, resolve
from rllm_renderer_core.testing import wrap

QWEN = "Qwen/Qwen3-8B"
HI = [{"role": "user", "content": "hi"}]


class EncodesAlone:
    """What small tokenizers have: encode and decode."""

    name_or_path = QWEN

    def encode(self, text, **_):
        return [ord(each) for each in text]

    def decode(self, ids, **_):
        return "".join(map(chr, ids))


class Unsized(EncodesAlone):
    """All that every backend asks for, but no length."""

    def convert_tokens_to_ids(self, tokens):
        return None

    def get_added_vocab(self):
        return {}


class Reads(toy.ToyRenderer):
    """Asks its tokenizer for something while it renders."""

    what = "len(self.tokenizer)"

    def render(self, messages, **more):
        eval(self.what, {"self": self})
        return super().render(messages, **more)


@pytest.mark.parametrize("given", ["gpt2", b"gpt2"])
def test_a_name_is_none(given):
    with pytest.raises(TokenizerError, match="not a tokenizer: it has no encode"):
        resolve(QWEN, given)


@pytest.mark.parametrize(
    ("package", "options", "missing"),
    [
        (
            "renderers",
            {"backend": "prime"},
            "no backend can work with this tokenizer: EncodesAlone has no convert_tokens_to_ids, no get_added_vocab",
        ),
        ("tml_renderers", {"backend": "tml", "renderer": "Qwen3", "tokenizer": Unsized()}, "Unsized has no __len__"),
        ("tinker_cookbook", {"backend": "tinker", "tokenizer": object()}, "object has no encode"),
    ],
    ids=["prime", "tml", "tinker"],
)
def test_the_method_that_a_backend_misses_is_named(package, options, missing):
    pytest.importorskip(package)
    tokenizer = options.pop("tokenizer", None) or EncodesAlone()
    with pytest.raises(TokenizerError, match=missing) as caught:
        resolve(QWEN, tokenizer, **options)
    assert "AutoTokenizer.from_pretrained" in caught.value.fix and pickle.loads(pickle.dumps(caught.value)).fix


@pytest.mark.usefixtures("no_plugins")
def test_also_where_a_third_partys_renderer_misses_it(install):
    install("rllm-renderer-odd", source=plugin("odd", create="query.tokenizer.get_vocab()"))
    with pytest.raises(TokenizerError, match="odd:toy can't work with this tokenizer: ToyTokenizer has no get_vocab"):
        resolve("toy/toy-1", toy.ToyTokenizer())
    install("rllm-renderer-own", source=plugin("own", create="self.mistake()", models=("toy/own",)))
    with pytest.raises(RendererError, match="'B0' object has no attribute 'mistake'"):
        resolve("toy/own", toy.ToyTokenizer())


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("len(self.tokenizer)", "has no __len__"),
        ("self.tokenizer.apply_chat_template([])", "has no apply_chat_template"),
        ("self.tokenizer.offsets()", "is python-only, and this needs a fast one: offsets"),
    ],
)
def test_also_while_it_renders(what, said):
    def offsets():
        raise NotImplementedError("offsets need a fast one")

    tokenizer = toy.ToyTokenizer()
    tokenizer.is_fast, tokenizer.offsets = False, offsets
    renderer = type("Now", (Reads,), {"what": what})(tokenizer)
    with pytest.raises(TokenizerError, match=f"ToyTokenizer {said}"):
        wrap(renderer, tokenizer).render_ids(HI)


def test_a_python_only_tokenizer_serves_where_offsets_are_only_wanted():
    """prime's MiniMax-M2 asks its tokenizer for offsets, which transformers gives with a fast one alone, and does without."""
    pytest.importorskip("renderers")
    name = "MiniMaxAI/MiniMax-M2.7"
    if reason := real_tokenizers.missing(name):
        pytest.skip(reason)
    real = real_tokenizers.load(name)

    class Slow:
        name_or_path, is_fast, chat_template = real.name_or_path, False, real.chat_template

        def __getattr__(self, attribute):
            return getattr(real, attribute)

        def __len__(self):
            return len(real)

        def __call__(self, text, *, return_offsets_mapping=False, **more):
            if return_offsets_mapping:
                raise NotImplementedError("return_offset_mapping is not available when using Python tokenizers")
            return real(text, **more)

    said = [*HI, {"role": "assistant", "content": "ho", "reasoning_content": "why"}]
    slow, fast = (resolve(name, each, backend="prime", renderer="minimax-m2", parity="off") for each in (Slow(), real))
    assert slow.render(said).token_ids == slow.render_ids(said) == fast.render_ids(said)


def test_a_process_without_its_class_says_so(monkeypatch):
    module = types.ModuleType("of_this_process_alone")
    exec("import toy\nclass Own(toy.ToyTokenizer):\n    pass", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    tokenizer = module.Own()
    renderer = wrap(toy.ToyRenderer(), tokenizer)
    data = pickle.dumps([renderer, renderer.with_marker_text("error")])
    one, two = pickle.loads(data)
    assert type(one.tokenizer) is module.Own and one.render_ids(HI) == two.render_ids(HI) == renderer.render_ids(HI)
    code = "import pickle, sys\nfrom rllm_renderer_core import TokenizerError\ntry:\n    pickle.load(sys.stdin.buffer)\n"
    code += "except TokenizerError as error:\n    print(error)"
    code = f"import sys; sys.path.insert(0, {str(pathlib.Path(toy.__file__).parent)!r})\n{code}"
    out = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True).stdout.decode()
    assert "a of_this_process_alone.Own, can't be unpickled in this process: ModuleNotFoundError" in out and "fix: " in out


def test_a_class_of_the_main_module_is_left_to_whatever_pickles_it():
    from rllm_renderer_core.normal_form.tokenizer import packed

    class Local(toy.ToyTokenizer):
        pass

    local = Local()
    assert packed(local) is local and packed(None) is None


def test_loads_at_the_same_time_are_one(monkeypatch):
    transformers = pytest.importorskip("transformers")
    from rllm_renderer_core.normal_form.tokenizer import load_tokenizer

    started, threads, loads = threading.Barrier(8), [], []

    def load(name):
        loads.append(name)
        arrived.wait(10)
        if name == "broken":
            raise OSError("no such model")
        return toy.ToyTokenizer()

    def call(name):
        started.wait(10)
        try:
            found.append(load_tokenizer(name))
        except TokenizerError as error:
            found.append(error)

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", load)
    for name in ("toy", "broken"):
        found, arrived = [], threading.Event()
        threads = [threading.Thread(target=call, args=(name,)) for _ in range(8)]
        for each in threads:
            each.start()
        threading.Timer(0.3, arrived.set).start()
        for each in threads:
            each.join()
        assert len({id(each) for each in found}) == 1 and len(found) == 8
    assert loads == ["toy", "broken"]
    load_tokenizer("toy")
    assert loads == ["toy", "broken", "toy"], "nothing is kept"
