"""The plugin around rLLM's ChatTemplateParser: never chosen by itself, and what it gives where it is asked for."""

from __future__ import annotations

import json

import pytest
import real_tokenizers

from rllm_renderer_core import BackendUnavailableError, explain, select_backend

MODEL = "Qwen/Qwen3-8B"


@pytest.mark.parametrize("model", [MODEL, "me/unknown"])
def test_it_never_wins_unless_it_is_named(model):
    assert select_backend(model).backend != "parser"
    verdict = next(each for each in explain(model).verdicts if each.backend == "parser")
    assert verdict.verdict == "no match"
    assert "parser" not in " ".join(select_backend(model).hints)


def test_its_renderers_name_alone_doesnt_choose_it():
    with pytest.raises(LookupError):
        select_backend(MODEL, renderer="parser")


def test_without_rllm_the_error_says_so(monkeypatch):
    from rllm_renderer_rllm.parser_backend import backend

    monkeypatch.setattr(backend, "_has_parser", lambda: False)
    with pytest.raises(BackendUnavailableError, match=r"rllm with rllm\.parser isn't importable"):
        select_backend(MODEL, backend="parser")


def test_parser_that_rllm_refuses_to_build_is_an_error_with_what_would_come_next(process):
    """Its default parser tries the template on messages with argument text, which many templates don't take."""
    if why := real_tokenizers.missing("MiniMaxAI/MiniMax-M3"):
        pytest.skip(why)
    code = (
        "import real_tokenizers as t\n"
        "from rllm_renderer_core import CreateError, resolve\n"
        "try: resolve('MiniMaxAI/MiniMax-M3', t.load('MiniMaxAI/MiniMax-M3'), backend='parser')\n"
        "except CreateError as error: print(error)\n"
    )
    result = process("-W", "ignore", "-c", code)
    assert "can't build 'parser'" in result.stdout and "backend='minimax-m3'" in result.stdout, result.stderr[-2000:]


SCRIPT = """
import json
import real_tokenizers, scripted_rollout as script
from rllm.parser import ChatTemplateParser
from rllm_renderer_core import OptionError, resolve
from rllm_renderer_training import Rollout

tokenizer = real_tokenizers.load("Qwen/Qwen3-8B")
renderer = resolve("Qwen/Qwen3-8B", tokenizer, backend="parser", parity="off")
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
parser = ChatTemplateParser.get_parser(tokenizer)
theirs = parser.parse(messages, add_generation_prompt=True, is_first_msg=True, tools=script.TOOLS, accumulate_reasoning=False)
out = {"same": tokenizer.encode(theirs) == renderer.render_ids(messages, tools=script.TOOLS, add_generation_prompt=True)}
quiet = resolve("Qwen/Qwen3-8B", tokenizer, backend="parser", parity="off", thinking=False)
out["quiet"] = tokenizer.decode(quiet.render_ids(messages, add_generation_prompt=True)).endswith("</think>\\n\\n")
try:
    resolve("Qwen/Qwen3-8B", tokenizer, backend="parser", parity="off", chat_template_kwargs={"other": 1})
except OptionError as error:
    out["refused"] = str(error).splitlines()[0]
rollout = Rollout(renderer)
rollout.begin(script.arriving(0, 0, []), tools=script.TOOLS)
for turn in range(len(script.TURNS)):
    rollout.record(script.completion(renderer, turn))
    ids = [call["id"] for call in rollout.messages[-1].get("tool_calls", ())]
    if turn + 1 < len(script.TURNS):
        rollout.extend(script.arriving(0, turn + 1, ids))
out["segments"] = len(rollout.segments)
out["reasons"] = [each.reason for each in rollout.declines]
out["calls"] = [len(message.get("tool_calls", ())) for message in rollout.messages if message["role"] == "assistant"]
report = None
try:
    resolve("Qwen/Qwen3-8B", tokenizer, backend="parser", parity="error")
except Exception as error:
    out["parity"] = str(error).splitlines()[0]
print(json.dumps(out))
"""


def test_ids_are_the_parsers_and_turns_are_bridged(process, tmp_path):
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    file = tmp_path / "parser.py"
    file.write_text(SCRIPT)
    result = process("-W", "ignore", file)
    assert result.returncode == 0, result.stderr[-4000:]
    out = json.loads(result.stdout.splitlines()[-1])
    assert out["same"] and out["quiet"]
    assert "no 'other'" in out["refused"]
    assert (out["segments"], out["reasons"]) == (1, [])
    assert out["calls"] == [2, 0, 1, 1, 0, 0, 2, 0]
    # The system prompt that it makes up, and more: the numbers are in docs/rllm.md.
    assert "differs from the tokenizer's chat template on 21 of 34 probes" in out["parity"]


def test_a_rollout_through_it_pins_like_any_other(process):
    code = (
        "import real_tokenizers as t\n"
        "from rllm_renderer_core import resolve\n"
        f"found = resolve({MODEL!r}, t.load({MODEL!r}), backend='parser', parity='off').resolution\n"
        f"print(resolve({MODEL!r}, t.load({MODEL!r}), pin=found.to_dict(), parity='off').resolution == found)\n"
    )
    if why := real_tokenizers.missing(MODEL):
        pytest.skip(why)
    result = process("-W", "ignore", "-c", code)
    assert result.stdout.strip() == "True", result.stderr[-2000:]
