"""Where prime has a hand-coded bridge for the same format, the two are equal id for id."""

import pytest
import shapes
import tinker_oracle as oracle

from rllm_renderer_core import BridgeDeclined, resolve

pytest.importorskip("rllm_renderer_prime")
pytest.importorskip("renderers")

CASES = [case for case in oracle.CASES if case.renderer in ("qwen3", "qwen3_5", "nemotron3")]


@pytest.mark.parametrize("each", CASES, ids=str)
def test_bridges_equal_primes(each, renderer_of):
    tinker = renderer_of(each.renderer, each.model)
    prime = resolve(each.model, oracle.tokenizer(each.model), backend="prime", parity="off")
    bridged = 0
    for tools in (None, shapes.TOOLS):
        for shape in shapes.SHAPES:
            turn = oracle.official_turn(each, shape, tools)
            if turn is None:
                continue
            for new in (shape.new, shape.unnamed().new):
                more = {"tools": tools, "previous_message": shape.assistant}
                mine, its = (renderer.try_bridge(*turn, new, **more) for renderer in (tinker, prime))
                if isinstance(mine, BridgeDeclined) or isinstance(its, BridgeDeclined):
                    continue
                assert mine.token_ids == its.token_ids, (shape.name, bool(tools))
                bridged += 1
    assert bridged >= 32
