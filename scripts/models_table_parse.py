"""Prints, as markdown, how many fixtures of the public suite canitoolcall pass through ``resolve``, family by family.

    PYTHONPATH=COOKBOOK python scripts/models_table_parse.py [part of a model's name ...]

Needs the packages of the tests (see tests/support/real_tokenizers.py). Pass is what the suite's own non-streaming checks say of
reasoning, content and the calls whose status is OK; prompt ids, sampled ids and stops are the fixtures' own. ``renderers``
alone is the upstream renderer of the prime plugin on the fixtures of models that it covers. SGLang's figures were measured on
the texts of the same fixtures (see ``SGLANG``); its package pins another transformers, so they aren't measured anew here.
"""

# ruff: noqa: T201
from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections import Counter
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import parse_suite
from models_cells import measured_with, wanted
from parse_suite_failures import FAILURES

from rllm_renderer_core.errors import RendererError

SGLANG = {
    "deepseek": 64, "gemma4": 41, "glm": 46, "gpt-oss": 18, "kimi": 47, "llama": 19, "mistral": 19, "qwen3-hermes": 45,
    "qwen3-xml": 46,
}  # fmt: skip
"""Fixtures of a family, of those served here, that SGLang's parsers pass: llm-router-utils 0.8.1, the parsers that the suite's
adapter names, reasoning first, over ``raw_output``. SGLang's server feeds gpt-oss otherwise, and may pass more of it."""


def main() -> None:
    warnings.simplefilter("ignore")
    counts: Counter[tuple[str, str]] = Counter()
    for model in sorted(parse_suite.by_model()):
        if wanted(model):
            count(model, counts)
    print(measured_with("canitoolcall", "renderers", "tinker-cookbook"))
    print("SGLang's parsers as llm-router-utils 0.8.1 has them, on the same fixtures.\n")
    print(
        "| family | fixtures served | pass | fail, no call OK | an unexpected OK call | SGLang passes | `renderers` alone, of |"
    )
    print("|---|---|---|---|---|---|---|")
    families = sorted({family for family, _ in counts})
    for family in [*families, "all"]:
        names = families if family == "all" else [family]

        def of(what: str, names: list[str] = names) -> int:
            return sum(counts[name, what] for name in names)

        failed = of("served") - of("pass") - of("wrong")
        print(
            f"| {family} | {of('served')} | {of('pass')} | {failed} | {of('wrong')} | {sum(SGLANG[name] for name in names)} | "
            f"{of('renderers')} of {of('by renderers')} |"
        )
    reasons = Counter(FAILURES.values())
    print("\nWhat doesn't pass, by reason:\n")
    for reason, number in sorted(reasons.items(), key=lambda pair: -pair[1]):
        print(f"- {number}: {reason}")


def count(model: str, counts: Counter[tuple[str, str]]) -> None:
    """Adds what the fixtures of a model give; a model that nothing here serves adds nothing."""
    try:
        tokenizer = parse_suite.tokenizer(model)
    except LookupError as missing:
        print(f"{model}: {missing}", file=sys.stderr)
        return
    made: dict[tuple[Any, bool], Any] = {}
    for fixture in parse_suite.by_model()[model]:
        for alone in (False, True):
            key = (fixture.thinking, alone)
            if key not in made:
                made[key] = _renderer(model, tokenizer, fixture.thinking, alone)
            if made[key] is None:
                continue
            status, _, unexpected = parse_suite.outcome(fixture, tokenizer, made[key])
            passes = status in parse_suite.PASSES
            if alone:
                counts[fixture.family, "by renderers"] += 1
                counts[fixture.family, "renderers"] += passes
                continue
            counts[fixture.family, "served"] += 1
            counts[fixture.family, "pass"] += passes
            counts[fixture.family, "wrong"] += bool(unexpected)


def _renderer(model: str, tokenizer: Any, thinking: bool | None, alone: bool) -> Any:
    options = {"backend": "prime", "parse_check": "off"} if alone else {}
    try:
        found = parse_suite.renderer(model, tokenizer, thinking, **options)
    except RendererError:
        return None
    if not alone:
        return found
    opener = found.render_ids([{"role": "user", "content": "ping"}], add_generation_prompt=True)
    return _Alone(found.upstream.upstream, opener)


class _Alone:
    """An upstream renderer of the package ``renderers``, its result as ``outcome`` reads one.

    Args:
        upstream: The renderer.
        opener: The prompt where a fixture says none; upstream takes it for granted.
    """

    def __init__(self, upstream: Any, opener: list[int]) -> None:
        self._upstream, self._opener = upstream, opener

    def get_stop_token_ids(self) -> list[int]:
        return list(self._upstream.get_stop_token_ids())

    def parse_response(self, ids: list[int], *, tools: Any, prompt_ids: Any) -> Any:
        from rllm_renderer_core import ParsedResponse, ToolCall, ToolCallStatus

        out = self._upstream.parse_response(ids, tools=tools, prompt_ids=prompt_ids or self._opener)
        calls = [
            ToolCall(call.name or "", call.arguments or {}, raw=call.raw or "")
            for call in out.tool_calls or ()
            if str(call.status.value) == ToolCallStatus.OK.value
        ]
        return ParsedResponse(out.content or "", out.reasoning_content, calls)


if __name__ == "__main__":
    main()
