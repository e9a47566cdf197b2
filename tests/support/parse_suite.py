"""The fixtures of canitoolcall, through ``resolve``: which tokenizer stands in for which model, and what its own checks say.

The ids are the fixtures' own, with the stop that the format samples behind them; the prompt is the fixture's generation prompt.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
import warnings
from typing import Any

import real_tokenizers
from canitoolcall import checks, fixtures
from canitoolcall.results import Observation, ParsedToolCall, ParseResult
from real_tokenizers import MODELS as KNOWN

from rllm_renderer_core import ToolCallStatus, resolve
from rllm_renderer_core.errors import RendererError, RendererWarning

SAME_VOCABULARY = {
    "Qwen/Qwen3-0.6B": ("Qwen/Qwen3-8B", True),
    "Qwen/Qwen3-4B-Thinking-2507": ("Qwen/Qwen3-8B", False),
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": ("Qwen/Qwen3-8B", "qwen3_coder_llamacpp"),
    "Qwen/Qwen3-Coder-Next": ("Qwen/Qwen3-8B", "qwen3_coder_llamacpp"),
    "deepseek-ai/DeepSeek-V3-0324": ("deepseek-ai/DeepSeek-V3", True),
    "deepseek-ai/DeepSeek-V4.1-Flash": ("deepseek-ai/DeepSeek-V4-Flash", False),
    "google/gemma-4-31B-it": ("google/gemma-4-E2B-it", True),
    "zai-org/GLM-4.7": ("zai-org/GLM-4.5", "glm_4_7_flash"),
    "zai-org/GLM-5.3": ("zai-org/GLM-5", False),
    "moonshotai/Kimi-K2-Instruct-0905": ("moonshotai/Kimi-K2.6", "kimi_k2"),
    "meta-llama/Llama-3.3-70B-Instruct": ("meta-llama/Llama-3.1-8B-Instruct", True),
    "mistralai/Ministral-3-14B-Instruct-2512": ("mistralai/Ministral-3-14B-Reasoning-2512", False),
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": ("mistralai/Ministral-3-14B-Reasoning-2512", False),
}
"""Model -> one with the same vocabulary, and whether its template is the model's too; or the name of the template."""

PASSES = ("pass", "soft_pass")
"""What the suite says of a fixture that is read as it expects."""
FAMILIES = {family.slug: family for family in fixtures.load_families().values()}


@functools.cache
def by_model() -> dict[str, list[Any]]:
    """The fixtures of each model."""
    out: dict[str, list[Any]] = {}
    for fixture in fixtures.load_fixtures():
        out.setdefault(fixture.reference_model, []).append(fixture)
    return out


def tokenizer(model: str) -> Any:
    """The model's tokenizer.

    Raises:
        LookupError: With what is missing.
    """
    if model == "moonshotai/Kimi-K3":
        return _kimi_k3()
    base, template = SAME_VOCABULARY.get(model, (model, True))
    if base not in KNOWN:
        raise LookupError(f"no package has the vocabulary of {model}")
    if why := real_tokenizers.missing(base):
        raise LookupError(why)
    found = real_tokenizers.load(base, name_or_path=model, template=template is True)
    if isinstance(template, str):
        found.chat_template = real_tokenizers.extra_template(template)
    return found


@functools.cache
def _kimi_k3() -> Any:
    """K2's vocabulary with K3's names of control tokens, under a stand-in for K3's tokenizer class, which is in no package."""
    from tokenizers import Tokenizer

    file = real_tokenizers.EXTRA_TEMPLATES.parent / "kimi_k3_stub.py"
    if not file.exists():
        raise LookupError("Kimi-K3's tokenizer class is in no package, and the stand-in isn't there")
    spec = importlib.util.spec_from_file_location("kimi_k3_stub", file)
    assert spec is not None and spec.loader is not None
    module = sys.modules["kimi_k3_stub"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = {163586: "<|end_of_msg|>", 163587: "<|open|>", 163588: "<|close|>", 163589: "<|sep|>", 163603: "<|media_pad|>"}
    data = json.loads(real_tokenizers.kimi_vocabulary())
    vocabulary = data["model"]["vocab"]
    for added in data["added_tokens"]:
        if added["id"] in names:
            vocabulary.pop(added["content"], None)
            added["content"], added["special"] = names[added["id"]], True
            vocabulary[added["content"]] = added["id"]
    texts = {"eos_token": "[EOS]", "bos_token": "[BOS]", "pad_token": "[PAD]"}
    backend = Tokenizer.from_str(json.dumps(data))
    return module.K3Tokenizer(tokenizer_object=backend, name_or_path="moonshotai/Kimi-K3", **texts)


def renderer(model: str, loaded: Any, thinking: bool | None, **options: Any) -> Any:
    """The model's renderer, thinking as the fixture's request had it where the backend has that switch."""
    options.setdefault("parity", "off")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RendererWarning)  # which of the installed backends could serve more
        if thinking is not None:
            try:
                return resolve(model, loaded, thinking=thinking, **options)
            except RendererError:
                pass
        return resolve(model, loaded, **options)


_STOPS = {
    "glm": ("<|observation|>", "<|user|>"),
    "gpt-oss": ("<|call|>", "<|return|>"),
    "gemma4": ("<|tool_response>", "<turn|>"),
}


def sampled(fixture: Any, loaded: Any, stops: list[int]) -> list[int]:
    """The fixture's ids with the stop that ends them, where generation wasn't cut off."""
    ids = list(fixture.output_token_ids)
    if fixture.truncated or not stops or (ids and ids[-1] in stops):
        return ids
    if fixture.family in _STOPS:
        called = bool(fixture.expected and fixture.expected.tool_calls)
        return [*ids, loaded.convert_tokens_to_ids(_STOPS[fixture.family][0 if called else 1])]
    return [*ids, loaded.eos_token_id if loaded.eos_token_id in stops else stops[0]]


def outcome(fixture: Any, loaded: Any, parser: Any) -> tuple[str, str, list[str]]:
    """Status of the fixture by the suite's own checks, what they say, and the OK calls that it doesn't expect."""
    ids = sampled(fixture, loaded, parser.get_stop_token_ids())
    prompt = loaded.encode(fixture.generation_prompt, add_special_tokens=False) if fixture.generation_prompt else None
    out = parser.parse_response(ids, tools=list(fixture.tools) or None, prompt_ids=prompt)
    good = [call for call in out.tool_calls if call.status is ToolCallStatus.OK]
    result = ParseResult(
        content=out.content,
        reasoning_content=out.reasoning_content,
        tool_calls=tuple(ParsedToolCall(call.name, call["function"]["arguments"]) for call in good),
    )
    rows = checks.run_checks(fixture, FAMILIES[fixture.family], Observation(nonstream=result, streams={}))
    said = "; ".join(f"{row.check}: {row.detail}" for row in rows if row.status.value not in PASSES)
    wanted = [_shown(call.name, call.arguments) for call in fixture.expected.tool_calls] if fixture.expected else []
    made = [_shown(call.name, json.loads(call["function"]["arguments"])) for call in good]
    return checks.case_status(rows).value, said, [call for call in made if call not in wanted]


def _shown(name: str, arguments: Any) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, ensure_ascii=False)}"
