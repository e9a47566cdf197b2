"""The ids on docs/how-it-works.md are those of the real tokenizer, through the renderer that the page is about."""

from __future__ import annotations

import pathlib
import re

import pytest
import real_tokenizers

from rllm_renderer_core import resolve

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "how-it-works.md").read_text(encoding="utf-8")
MODEL = "Qwen/Qwen3-8B"


@pytest.fixture(scope="module")
def renderer():
    if reason := real_tokenizers.missing(MODEL):
        pytest.skip(reason)
    return resolve(MODEL, real_tokenizers.load(MODEL), backend="chat-template")


def test_the_conversation(shown, renderer):
    prompt = renderer.render_ids(shown["messages"], add_generation_prompt=True)
    completion = renderer.tokenizer.encode(shown["completion"], add_special_tokens=False)
    assert (prompt, completion) == (shown["P"], shown["C"])
    parsed = renderer.parse_response(completion, prompt_ids=prompt)
    (call,) = parsed.runnable
    assert (parsed.reasoning_content, parsed.content, call["function"]["arguments"]) == ("Look.", "", '{"q":"tea"}')
    result = {"role": "tool", "content": "green", "tool_call_id": call.id}
    bridged = renderer.bridge_to_next_turn(prompt, completion, [result], previous_message=parsed.to_message()).token_ids
    assert bridged == [*prompt, *completion, *shown["D"]]
    again = renderer.render_ids([*shown["messages"], parsed.to_message(), result], add_generation_prompt=True)
    at = next(index for index, (one, other) in enumerate(zip(bridged, again, strict=False)) if one != other)
    assert (at, bridged[at : at + 4], again[at : at + 4]) == (21, shown["sampled"], shown["rendered"])


def test_the_experiment_on_a_turn_boundary(shown, renderer):
    def rendered(answer, question):
        opening = [{"role": "system", "content": "s"}, {"role": "user", "content": "ping"}]
        turns = [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]
        return renderer.render_ids([*opening, *turns], add_generation_prompt=True)

    one, other, altered = shown["one"], shown["other"], shown["altered"]
    assert (
        one == rendered("alpha1", "ping0")
        and other == rendered("omega7", "ping0")
        and altered == rendered("alpha1", "zq9ping0")
    )
    assert one[17:] == other[17:] and one[16] != other[16]
    assert one[:22] == altered[:22] and one[22] != altered[22]
    stops = renderer.get_stop_token_ids()
    assert [token for token in one[17:22] if token in stops] == [151645]


def test_what_the_parser_learned(renderer):
    parser = renderer.upstream.parser
    table = dict(re.findall(r"^\| (\w[\w ]+) \| `(.*)` \|$", PAGE, re.MULTILINE))
    assert {place: text.encode().decode("unicode_escape") for place, text in table.items()} == parser.delimiters
    assert f"probe turn back, {parser.proofs} of them" in PAGE
