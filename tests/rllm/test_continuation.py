"""Which messages go on from a completion: for completers that continue ids without rendering them again."""

from __future__ import annotations

import types

import pytest
from rllm_renderer_rllm import EngineOutput, follows_completion

SAID = EngineOutput("Seven.", "Look.", [])
CALLED = EngineOutput("", "Look.", [{"name": "look", "arguments": {"n": 1, "q": "lids"}}])
USER = {"role": "user", "content": "And boats?"}
RESULT = {"role": "tool", "content": "7"}


def assistant(content="Seven.", **more):
    return {"role": "assistant", "content": content, **more}


def calls(arguments, name="look"):
    return {"tool_calls": [{"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("new", "output"),
    [
        ([assistant(), USER], SAID),
        ([assistant(" Seven.\n"), USER, USER], SAID),
        ([assistant(reasoning="Look.\n"), USER], SAID),
        ([assistant(reasoning_content="Look."), USER], SAID),
        ([assistant(reasoning=None, tool_calls=None), USER], SAID),
        ([assistant([{"type": "thinking", "thinking": "Look."}, {"type": "text", "text": "Seven."}]), USER], SAID),
        ([assistant(None, **calls('{"q":"lids","n":1}')), RESULT], CALLED),
        ([assistant("", **calls({"n": 1, "q": "lids"})), USER], CALLED),
        ([assistant("", reasoning="Look."), RESULT], CALLED),  # rLLM's own Step leaves calls out
    ],
)
def test_these_go_on(new, output):
    assert follows_completion(new, output)


@pytest.mark.parametrize(
    ("new", "output"),
    [
        ([], SAID),
        ([USER], SAID),
        ([RESULT], CALLED),
        ([assistant("Eight."), USER], SAID),
        ([assistant(reasoning="Guess."), USER], SAID),
        ([assistant(), USER, assistant("Unsampled."), USER], SAID),
        ([USER, assistant()], SAID),
        ([assistant(**calls("{}")), RESULT], SAID),
        ([assistant("", **calls('{"q":"lids","n":true}')), RESULT], CALLED),
        ([assistant("", **calls('{"q":"lids","n":1}', "count")), RESULT], CALLED),
        ([assistant("", **calls("{")), RESULT], CALLED),
        ([assistant(""), USER], CALLED),
        ([assistant("", images=[object()]), USER], EngineOutput("", "", [])),
    ],
)
def test_these_dont(new, output):
    assert not follows_completion(new, output)


def test_rllms_own_output_and_its_text_as_sampled():
    call = types.SimpleNamespace(name="look", arguments={"n": 1, "q": "lids"})
    output = types.SimpleNamespace(text="<think>Look.</think>x", content="x", reasoning="Look.", tool_calls=[call])
    assert follows_completion([assistant("x", **calls('{"n": 1, "q": "lids"}')), RESULT], output)
    assert follows_completion([assistant("<think>Look.</think>x"), USER], output)
    assert not follows_completion([assistant("<think>Look.</think>y"), USER], output)


GIVEN = {"role": "assistant", "content": "", "reasoning": "Look.", **calls('{"n": 1, "q": "lids"}')}
BROKEN = {"role": "assistant", "content": "", **calls('{"n": ')}


def test_a_message_that_a_client_was_given_and_sends_back():
    """As servers' clients do: without what they don't know, and in other spellings of the same."""
    for back in (GIVEN, assistant(None, **calls('{"q":"lids","n":1}')), assistant("", reasoning_content="Look.")):
        assert follows_completion([back, RESULT], GIVEN)
    assert follows_completion([dict(BROKEN), RESULT], BROKEN), "what a server's own parser made of it"


@pytest.mark.parametrize(
    "new",
    [
        [assistant("Something else.", **calls('{"n": 1, "q": "lids"}')), RESULT],
        [assistant("", **calls('{"n": 2, "q": "lids"}')), RESULT],
        [assistant("", reasoning="Guess.", **calls('{"n": 1, "q": "lids"}')), RESULT],
        [assistant("", **calls('{"n": 1, "q": "lids"}')), RESULT, assistant("Unsampled."), USER],
        [RESULT],
        [USER],
    ],
)
def test_a_message_that_was_edited_dropped_or_added(new):
    assert not follows_completion(new, GIVEN)


def test_nothing_goes_on_from_an_answer_that_isnt_known():
    assert not follows_completion([assistant(""), USER], {})
