"""Token ids come in as lists, arrays and tensors, mean the same, and what aren't ids is said: a raise, a decline, or a loss."""

from __future__ import annotations

import array
import json

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st
from rllm_renderer_training import Rollout, RolloutError
from toy import END, ToyRenderer, ToyTokenizer, encode

from rllm_renderer_core import BridgeDeclined, Termination, TokenIdError
from rllm_renderer_core.normal_form.ids import LIMIT, as_ids
from rllm_renderer_core.normal_form.tokenizer import PADDING, id_limit
from rllm_renderer_core.testing import wrap

np = pytest.importorskip("numpy", reason="numpy isn't installed: arrays of it as ids aren't proven")

OPENING = [{"role": "user", "content": "How many?"}]
NEW = [{"role": "user", "content": "And lids?"}]
P = ToyRenderer().render_ids(OPENING, add_generation_prompt=True)
C = [*encode("four"), END]


def torch():
    return pytest.importorskip("torch", reason="torch isn't installed: its tensors as ids aren't proven")


FORMS = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda ids: (each for each in ids),
    "array": lambda ids: array.array("I", ids),
    "int64": lambda ids: np.array(ids),
    "uint32": lambda ids: np.array(ids, dtype=np.uint32),
    "list of int64": lambda ids: list(np.array(ids)),
    "mixed": lambda ids: [np.int32(ids[0]), *ids[1:]],
    "tensor": lambda ids: torch().tensor(ids),
    "list of tensors": lambda ids: list(torch().tensor(ids)),
}

WRONG = {
    "text": ("It is 3", "text, not ids"),
    "bytes": (b"It is 3", "text, not ids"),
    "texts": (["1", "2"], "entry 0 is '1', not an id"),
    "None": (None, "not a list of ids"),
    "one number": (7, "not a list of ids"),
    "nested": ([[1, 2]], "nested: entry 0"),
    "a batch": (np.array([[1, 2]]), "nested: entry 0"),
    "floats": ([1.0], "entry 0 is 1.0, not an id"),
    "float array": (np.array([1.5]), "entry 0 is 1.5, not an id"),
    "NaN": ([float("nan")], "entry 0 is nan"),
    "negative": ([5, -100], "entry 1, -100, is negative"),
    "huge": ([5, 10**12], "entry 1, 1000000000000, is beyond the vocabulary"),
    "a mask": ([True, False], "entry 0 is True, not an id; pass ids, not a mask"),
    "one bool": ([5, 6, True], "entry 2 is True"),
    "False": ([5, False], "entry 1 is False"),
    "numpy mask": (np.array([True, False]), "entry 0 is True"),
    "numpy bool": ([5, np.True_], "entry 1 is True"),
    "encoding": ({"input_ids": [1, 2]}, "pass its ['input_ids']"),
    "a set": ({1, 2}, "not a list of ids"),
    "None among them": ([5, None], "entry 1 is None"),
}


def said(error):
    return str(error).replace("\n  fix: ", "; ")


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_lists_of_int(form):
    out = as_ids(FORMS[form](C))
    assert out == C and type(out) is list and {type(each) for each in out} == {int}
    assert json.loads(json.dumps(out)) == C


@pytest.mark.parametrize("name", WRONG)
def test_what_are_not_ids_is_said(name):
    value, text = WRONG[name]
    with pytest.raises(TokenIdError) as caught:
        as_ids(value)
    assert text in said(caught.value) and caught.value.fix


def test_a_list_of_int_is_not_copied():
    ids = list(C)
    assert as_ids(ids) is ids


def test_it_does_not_need_numpy(monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "numpy")
    ids = [0, 1, *C]
    assert as_ids(ids) is ids
    for wrong in ([0, True], [0, False], [LIMIT]):
        with pytest.raises(TokenIdError):
            as_ids(wrong)


ANYTHING = st.one_of(
    st.integers(-3, 3),
    st.integers(LIMIT - 2, LIMIT + 2),
    st.integers(),
    st.booleans(),
    st.floats(),
    st.none(),
    st.text(max_size=2),
)


@given(st.lists(ANYTHING, max_size=6))
def test_the_fast_check_and_the_slow_rule_agree(values):
    valid = all(type(each) is int and 0 <= each < LIMIT for each in values)
    try:
        assert as_ids(values) is values and valid
    except TokenIdError as error:
        index = error.index
        assert not valid and not (type(values[index]) is int and 0 <= values[index] < LIMIT)


# The vocabulary


class Counted(ToyTokenizer):
    def __len__(self):
        return 5000


def test_ids_beyond_a_known_vocabulary_are_refused_but_those_of_a_padded_output_layer_are_not():
    limit = id_limit(Counted())
    assert limit == 5000 + PADDING and id_limit(ToyTokenizer()) is None
    rollout = Rollout(wrap(ToyRenderer(), Counted()))
    rollout.begin(OPENING)
    with pytest.raises(TokenIdError, match=f"is beyond the vocabulary, whose ids end below {limit}"):
        rollout.record([limit])
    assert rollout.record([limit - 1, END]).termination is Termination.STOP


# Where they come in


@pytest.fixture
def renderer():
    return wrap(ToyRenderer())


@pytest.mark.parametrize("form", FORMS)
def test_a_completion_and_its_prompt_may_have_any_form(renderer, form):
    make = FORMS[form]
    expected = renderer.parse_response(C, prompt_ids=P)
    assert expected.termination is Termination.STOP and expected.content == "four"
    assert renderer.parse_response(make(C)) == renderer.parse_response(C)
    assert renderer.parse_response(make(C), prompt_ids=make(P)) == expected
    assert renderer.try_bridge(make(P), make(C), NEW) == renderer.try_bridge(P, C, NEW)
    rollout = Rollout(renderer)
    rollout.begin(OPENING)
    assert rollout.record(make(C)).content == "four"
    assert {type(each) for each in rollout.segments[0].token_ids} == {int}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ids_are_a_raise_in_record_a_decline_in_a_bridge_a_loss_in_parsing(renderer, name):
    value, _ = WRONG[name]
    rollout = Rollout(renderer)
    rollout.begin(OPENING)
    with pytest.raises(TokenIdError):
        rollout.record(value)
    assert rollout.record(C).content == "four"  # nothing was kept of it
    for arguments in ((value, C), (P, value)):
        out = renderer.try_bridge(*arguments, NEW)
        assert isinstance(out, BridgeDeclined) and isinstance(out.__cause__, TokenIdError)
        assert renderer.bridge_to_next_turn(*arguments, NEW) is None
    for parsed in (
        renderer.parse_response(value),
        *([] if value is None else [renderer.parse_response(C, prompt_ids=value)]),
    ):
        assert parsed.termination is Termination.MALFORMED and not parsed.lossless and parsed.loss.startswith("TokenIdError: ")


def test_an_iterator_that_raises_is_a_loss_too(renderer):
    def broken():
        yield 5
        raise OSError("the engine went away")

    assert renderer.parse_response(broken()).loss == "OSError: the engine went away"


# Log-probabilities


@pytest.mark.parametrize("form", ["list", "array", "tensor"])
def test_logprobs_may_be_arrays_and_are_floats(renderer, form):
    values = [-0.5, -1.0, -1.5, -2.0, 0]
    made = {"list": list, "array": lambda v: np.array(v, dtype=np.float32), "tensor": lambda v: torch().tensor(v)}[form](values)
    rollout = Rollout(renderer)
    rollout.begin(OPENING)
    rollout.record(C, made)
    found = rollout.segments[0].logprobs[len(P) :]
    assert found == values and {type(each) for each in found} == {float}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        ("-0.5", "'-0.5'"),
        (True, "True"),
        ([-0.5], "[-0.5]"),
    ],
)
def test_logprobs_that_are_no_numbers_are_refused(renderer, wrong, text):
    rollout = Rollout(renderer)
    rollout.begin(OPENING)
    with pytest.raises(RolloutError, match="logprob 1 is") as caught:
        rollout.record(C, [-0.5, wrong, *[-0.5] * 3])
    assert text in str(caught.value)
    rollout.record(C, [-0.5, None, *[-0.5] * 3])
    assert rollout.segments[0].logprobs[len(P) :][:2] == [-0.5, None]
    assert rollout.segments[0].token_ids[-1] == toy.END
