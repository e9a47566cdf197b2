"""canitoolcall with tml forced: no OK call that is not expected, and right where upstream's own parser is."""

from __future__ import annotations

import functools
import json
import warnings

import pytest

pytest.importorskip("canitoolcall", reason="the parse suite is not proved: canitoolcall isn't installed")
import parse_suite as suite
from canitoolcall import checks
from canitoolcall.results import Observation, ParsedToolCall, ParseResult
from rllm_renderer_tml.conversion import to_upstream
from rllm_renderer_tml.families import BY_MODEL
from sampling import WHOLE

from rllm_renderer_core import RendererError

RENDERERS = {
    **{model: family.name for model, family in BY_MODEL.items() if model in suite.by_model()},
    "Qwen/Qwen3-0.6B": "Qwen3",
    "deepseek-ai/DeepSeek-V3-0324": "DeepSeekV3",
}
STRICTER = {"deepseek/sglang-v4-self-closing-invoke"}
"""Right by upstream's parser alone: a call without parameters that closes in its own tag. The format's encoder writes it with a
closing tag of its own, so that under the parse contract it isn't the text of an OK call, whichever backend reads it."""

SAMPLE = ("Qwen/Qwen3-0.6B", "deepseek-ai/DeepSeek-V4-Flash", "moonshotai/Kimi-K2.6")
MODELS = sorted(RENDERERS) if WHOLE else SAMPLE


@functools.cache
def subject(model):
    """The model's tokenizer, and tml's renderers by the thinking that a fixture asks for."""
    try:
        loaded = suite.tokenizer(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return loaded, {
                thinking: suite.renderer(model, loaded, thinking, backend="tml", renderer=RENDERERS[model])
                for thinking in (None, True, False)
            }
    except (LookupError, RendererError) as why:
        pytest.skip(f"not proved for {model}: {str(why).splitlines()[0]}")


def by_upstream(fixture, renderer, ids):
    """Status of the fixture when upstream's own parser reads it; one that raises got nothing."""
    inner = renderer.upstream
    tools = None if inner._refuses_tools else list(fixture.tools) or None
    try:
        _, parser = inner.upstream.render_for_completion(to_upstream([{"role": "user", "content": "hi"}], tools))
        contents = [message.content for message in parser.parse_tokens(ids)]
    except Exception:  # upstream's errors have no common type
        contents = []
    texts = {"Text": "", "Thinking": ""}
    calls = []
    for content in contents:
        kind = type(content).__name__
        if kind in texts:
            texts[kind] += content.text
        elif kind == "InvokeTool":
            arguments = {each.name: json.loads(each.value) for each in content.args}
            calls.append(ParsedToolCall(content.name, json.dumps(arguments)))
    result = ParseResult(content=texts["Text"], reasoning_content=texts["Thinking"] or None, tool_calls=tuple(calls))
    rows = checks.run_checks(fixture, suite.FAMILIES[fixture.family], Observation(nonstream=result, streams={}))
    return checks.case_status(rows).value


@pytest.mark.parametrize("model", MODELS)
def test_at_least_as_good_as_upstream_and_no_call_that_is_not_expected(model, record_property):
    loaded, renderers = subject(model)
    passed = {"ours": set(), "upstream": set()}
    unexpected = {}
    for fixture in suite.by_model()[model]:
        renderer = renderers[fixture.thinking]
        status, said, calls = suite.outcome(fixture, loaded, renderer)
        if calls:
            unexpected[fixture.id] = (calls, said)
        if status in suite.PASSES:
            passed["ours"].add(fixture.id)
        sampled = suite.sampled(fixture, loaded, renderer.get_stop_token_ids())
        if by_upstream(fixture, renderer, sampled) in suite.PASSES:
            passed["upstream"].add(fixture.id)
    record_property("fixtures, right, right by upstream", [len(suite.by_model()[model]), *map(len, passed.values())])
    print(model, len(suite.by_model()[model]), {who: len(which) for who, which in passed.items()})
    assert not unexpected
    assert passed["upstream"] - passed["ours"] <= STRICTER
