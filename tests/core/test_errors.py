"""Every error carries its fix in its text, derives from what a caller would catch, and survives pickling."""

from __future__ import annotations

import inspect
import pickle

import pytest

from rllm_renderer_core import RendererError, errors

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, RendererError) and value.__module__ == errors.__name__
]
BUILTINS = {
    errors.MessageError: ValueError,
    errors.ToolError: ValueError,
    errors.OptionError: ValueError,
    errors.NoBackendError: LookupError,
    errors.AmbiguousBackendError: LookupError,
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling(kind):
    error = kind("what happened", fix="do this", plugin="a", index=3, explanation=("x",))
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert str(back) == str(error) == "what happened\n  fix: do this"
    assert (back.fix, back.plugin, back.index, back.explanation) == ("do this", "a", 3, ("x",))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_needs_no_fix(kind):
    error = pickle.loads(pickle.dumps(kind("what happened")))
    assert str(error) == "what happened" and error.fix is None


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_has_a_docstring(kind):
    assert inspect.getdoc(kind) and kind.__doc__ is not None


@pytest.mark.parametrize(("kind", "builtin"), BUILTINS.items(), ids=lambda kind: kind.__name__)
def test_an_error_is_what_a_caller_would_catch(kind, builtin):
    assert issubclass(kind, builtin)


def test_a_decline_keeps_its_reason_without_the_fix():
    declined = pickle.loads(pickle.dumps(errors.BridgeDeclined("two stops", fix="none")))
    assert (declined.reason, str(declined)) == ("two stops", "two stops\n  fix: none")


def test_all_errors_are_public():
    import rllm_renderer_core

    assert {kind.__name__ for kind in CLASSES} <= set(rllm_renderer_core.__all__)
