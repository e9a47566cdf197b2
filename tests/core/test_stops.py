"""Sampling stops at what the format, the tokenizer or a generation config says, and none is content."""

from __future__ import annotations

import json

import pytest
from toy import ARGS, CALL, END, ToyRenderer, ToyTokenizer, encode

from rllm_renderer_core import Termination, TokenizerError
from rllm_renderer_core.testing import wrap

EOS, PAD = 30, 31
USER = [{"role": "user", "content": "hi"}]


class Ending(ToyTokenizer):
    eos_token_id = EOS


@pytest.fixture
def renderer():
    return wrap(ToyRenderer(), Ending())


def test_stops_are_the_union(renderer, tmp_path):
    assert renderer.get_stop_token_ids() == sorted([END, EOS])
    tokenizer = Ending()
    tokenizer.name_or_path = str(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [END, PAD]}))
    assert wrap(ToyRenderer(), tokenizer).get_stop_token_ids() == sorted([END, EOS, PAD])
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(TokenizerError, match=r"generation_config\.json can't be read"):
        wrap(ToyRenderer(), tokenizer)


def test_the_end_of_sequence_is_no_content(renderer):
    parsed = renderer.parse_response([*encode("four"), EOS])
    assert (parsed.content, parsed.termination) == ("four", Termination.STOP)
    assert parsed == renderer.parse_response([*encode("four"), EOS], prompt_ids=renderer.render_ids(USER))
    assert renderer.parse_response([*encode("four"), EOS, *encode("x")]).termination is Termination.MALFORMED
    assert renderer.parse_response([*encode("a"), CALL, *encode("look"), ARGS, EOS]).termination is Termination.MALFORMED
    assert renderer.parse_response([*encode("four"), END]).termination is Termination.STOP


def test_a_turn_that_it_ends_is_no_bridge(renderer):
    prompt = renderer.render_ids(USER, add_generation_prompt=True)
    declined = renderer.try_bridge(prompt, [*encode("four"), EOS], USER)
    assert "closes no turn of the format" in declined.reason
    assert renderer.bridge_to_next_turn(prompt, [*encode("four"), END], USER) is not None
