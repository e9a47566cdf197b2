"""One check for everything that a plugin returns: converted where that is certain, else an error that names the plugin."""

from __future__ import annotations

import array

import pytest
from toy import END, ToyRenderer, encode

from rllm_renderer_core import (
    BridgeDeclined,
    ContractError,
    ParsedResponse,
    RenderedTokens,
    RenderError,
    Termination,
    ToolCall,
    ToolCallStatus,
)
from rllm_renderer_core.plugin import RendererTraits, rendering_probes
from rllm_renderer_core.testing import wrap

np = pytest.importorskip("numpy", reason="numpy isn't installed: plugins that return its arrays aren't proven")

OPENING = [{"role": "system", "content": "s"}, {"role": "user", "content": "How many?"}]
NEW = [{"role": "user", "content": "And lids?"}]
P = ToyRenderer().render_ids(OPENING, add_generation_prompt=True)
C = [*encode("four"), END]


def returning(method, value):
    """The toy renderer with a method that returns ``value``."""
    return wrap(type("Odd", (ToyRenderer,), {method: lambda self, *args, **more: value})())


# Ids

NOT_IDS = {
    "None": (None, "returned None from"),
    "text": ("ids", "text, not ids"),
    "texts": (["a"], "entry 0 is 'a'"),
    "a mapping": ({"input_ids": P}, "pass its"),
    "floats": ([1.0], "entry 0 is 1.0"),
    "bools": ([True], "entry 0 is True"),
    "negative": ([-1], "is negative"),
    "nested": ([P], "nested"),
}


@pytest.mark.parametrize("name", NOT_IDS)
def test_render_ids_that_are_none_are_refused(name):
    value, text = NOT_IDS[name]
    with pytest.raises(ContractError, match=r"backend 'wrapped' returned.* render") as caught:
        returning("render_ids", value).render_ids(OPENING)
    assert text in str(caught.value) or text in str(caught.value.__cause__)
    with pytest.raises(ContractError, match="backend 'wrapped'"):
        returning("render", RenderedTokens(value)).render(OPENING)


@pytest.mark.parametrize("make", [tuple, np.array, lambda ids: list(np.array(ids)), lambda ids: array.array("I", ids)])
def test_arrays_are_converted(make):
    with rendering_probes():  # ids that are the same whatever the messages say: nothing of them shows
        assert returning("render_ids", make(P)).render_ids(OPENING) == P
        out = returning("render", RenderedTokens(make(P))).render(OPENING)
        bridged = ToyRenderer().bridge_to_next_turn(P, C, NEW).token_ids
        continued = returning("bridge_to_next_turn", RenderedTokens(make(bridged))).bridge_to_next_turn(P, C, NEW)
    assert out.token_ids == P and {type(each) for each in out.token_ids} == {int}
    out = continued
    assert out.token_ids == bridged and {type(each) for each in out.token_ids} == {int}


def test_what_equals_p_in_a_bridge_but_is_no_int_is_replaced_by_p():
    prompt = [1, *P[1:]]
    bridged = ToyRenderer().bridge_to_next_turn(prompt, C, NEW).token_ids
    size = len(prompt + C)
    out = returning("bridge_to_next_turn", RenderedTokens([True, *map(float, bridged[1:size]), *bridged[size:]]))
    assert {type(each) for each in out.bridge_to_next_turn(prompt, C, NEW).token_ids} == {int}


@pytest.mark.parametrize("value", ["ids", [1, 2], None, {"token_ids": [1]}])
def test_render_returns_rendered_tokens(value):
    with pytest.raises(ContractError, match="instead of RenderedTokens"):
        returning("render", value).render(OPENING)


# Attribution

WRONG_ATTRIBUTION = {
    "index too large": ([2] * len(P), None, "reach from 2 to 2, and there are 2 messages"),
    "index below -1": ([-2] * len(P), None, "reach from -2 to -2"),
    "index is text": (["0"] * len(P), None, "message_indices that aren't int"),
    "index is a list": ([[0]] * len(P), None, "attribution that isn't of numbers"),
    "indices are a mapping": (dict.fromkeys(range(len(P)), 0), None, "message_indices as dict"),
    "mask is text": (None, ["no"] * len(P), "sampled_mask with 'no'"),
    "mask is too short": (None, [True], "sampled_mask has 1 entries"),
}


@pytest.mark.parametrize("name", WRONG_ATTRIBUTION)
def test_attribution_is_checked_in_render(name):
    indices, mask, text = WRONG_ATTRIBUTION[name]
    with pytest.raises(ContractError) as caught:
        returning("render", RenderedTokens(list(P), indices, mask)).render(OPENING)
    assert text in str(caught.value)


@pytest.mark.parametrize("name", [name for name in WRONG_ATTRIBUTION if name != "indices are a mapping"])
def test_attribution_is_checked_in_a_bridge(name):
    bridged = ToyRenderer().bridge_to_next_turn(P, C, NEW).token_ids
    indices, mask, _ = WRONG_ATTRIBUTION[name]
    indices, mask = (values and [values[0]] * (len(bridged) if len(values) > 1 else 1) for values in (indices, mask))
    out = returning("bridge_to_next_turn", RenderedTokens(bridged, indices, mask)).try_bridge(P, C, NEW)
    assert isinstance(out, BridgeDeclined) and isinstance(out.__cause__, ContractError)


# Stops


@pytest.mark.parametrize("value", [["<end>"], None, "<end>", [None], [END, -1], [END, True]])
def test_stop_ids_are_ids(value):
    with pytest.raises(ContractError, match="get_stop_token_ids"):
        returning("get_stop_token_ids", value)


def test_stop_ids_may_be_an_array():
    assert returning("get_stop_token_ids", np.array([END])).get_stop_token_ids() == [END]


def with_stop_strings(value):
    renderer = ToyRenderer()
    renderer.traits = RendererTraits(stop_strings=value)
    return wrap(renderer)


@pytest.mark.parametrize("value", [[END], None, "User:", [""], {"User:"}])
def test_stop_strings_are_texts(value):
    with pytest.raises(ContractError, match="stop strings"):
        with_stop_strings(value)


# Completions


class Renamed(ToolCall):
    @property
    def status(self):
        return "ok"

    @status.setter
    def status(self, value):
        pass


WRONG_PARSES = {
    "content None": ParsedResponse(None),
    "content ids": ParsedResponse([1]),
    "reasoning a list": ParsedResponse("", ["so"]),
    "calls a tuple": ParsedResponse("", None, ()),
    "calls None": ParsedResponse("", None, None),
    "a call as a dict": ParsedResponse("", None, [{"function": {"name": "f", "arguments": "{}"}}]),
    "a call without function": ParsedResponse("", None, [ToolCall("f")]),
    "a status as text": ParsedResponse("", None, [Renamed("f")]),
    "termination as text": ParsedResponse("", None, [], "stop"),
    "complete as None": ParsedResponse("", None, [], Termination.STOP, None),
    "loss as an error": ParsedResponse("", loss=ValueError("x"), lossless=False),
}
WRONG_PARSES["a call without function"].tool_calls[0].pop("function")


@pytest.mark.parametrize("name", WRONG_PARSES)
def test_a_parsed_response_has_the_types_that_it_declares(name):
    renderer = returning("parse_response", WRONG_PARSES[name])
    parsed = renderer.parse_response(C)
    assert (parsed.termination, parsed.content, parsed.tool_calls) == (Termination.MALFORMED, "", [])
    assert parsed.loss.startswith("ContractError: backend 'wrapped:Odd'")


def test_a_call_whose_name_was_taken_away_is_never_ok():
    call = ToolCall("f")
    call["function"]["name"] = ""
    assert call.status is ToolCallStatus.OK
    parsed = returning("parse_response", ParsedResponse("", None, [call])).parse_response(C)
    assert parsed.runnable == [] and "is OK and has no name" in parsed.loss


# SystemExit


class Exiting(ToyRenderer):
    def render(self, *args, **more):
        raise SystemExit(3)

    render_ids = parse_response = bridge_to_next_turn = render


def test_system_exit_from_a_plugin_is_contained():
    renderer = wrap(Exiting())
    for method in (renderer.render, renderer.render_ids):
        with pytest.raises(RenderError, match="SystemExit: 3"):
            method(OPENING)
    assert renderer.parse_response(C).loss == "SystemExit: 3"
    assert renderer.try_bridge(P, C, NEW).reason == "SystemExit: 3"
