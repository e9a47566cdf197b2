"""Errors and warnings. Every error is picklable and carries its fix in the text.

``except RendererError`` catches all of them; the narrow classes also derive from the built-in that a caller would expect
(``ValueError`` for bad input, ``LookupError`` for a model that nothing covers).
"""

from __future__ import annotations

from typing import Any


class RendererError(Exception):
    """Base of all errors of this package.

    Args:
        message: What happened, naming the plugin, option or message concerned.
        fix: What the user can do about it; appended to the text.
        details: Extra attributes to set on the error (kept through pickling).

    Attributes:
        reason: The message without the fix.
        index: Position of the message, tool or id concerned in the list that was passed in; ``None`` where it is none of them.
    """

    index: int | None = None

    def __init__(self, message: str, *, fix: str | None = None, **details: Any) -> None:
        super().__init__(f"{message}\n  fix: {fix}" if fix else message)
        self.reason = message
        self.fix = fix
        self.__dict__.update(details)


class MessageError(RendererError, ValueError):
    """A message can't be used."""


class UnsupportedContentError(MessageError):
    """A content part (an image, audio, a file) that the renderer can't carry; never dropped silently."""


class ToolError(RendererError, ValueError):
    """A tool declaration can't be used."""


class UnsupportedToolsError(ToolError):
    """Tools were passed to a renderer whose format or upstream implementation has no tool declarations."""


class TokenIdError(RendererError, ValueError):
    """What was passed as token ids aren't ids of the vocabulary."""


class OptionError(RendererError, ValueError):
    """An option that the chosen backend can't honour. ``option`` and ``backend`` name both."""

    option: str = ""
    backend: str = ""


class RenderError(RendererError):
    """The backend's upstream refused the messages, from ``index`` on; ``__cause__`` is its own exception."""


class NoBackendError(RendererError, LookupError):
    """No backend covers the model, or the forced one doesn't. ``explanation`` is the table of verdicts."""

    explanation: Any = None


class AmbiguousBackendError(RendererError, LookupError):
    """Two distributions claim the model with equal priority and match. ``backends`` names them."""

    backends: tuple[str, ...] = ()


class BackendUnavailableError(NoBackendError):
    """The backend that was asked for isn't installed, is broken, is switched off or can't serve this model here."""


class NoBridgeError(NoBackendError):
    """``require_bridge=True``, but the best match can't bridge."""


class CreateError(RendererError):
    """The winning backend failed to build its renderer; ``__cause__`` is its own exception."""


class PluginError(RendererError):
    """A plugin can't be used. ``plugin``, ``distribution`` and ``version`` name it."""

    plugin: str = ""
    distribution: str = ""
    version: str = ""


class DuplicatePluginError(PluginError):
    """Two distributions provide the same plugin or backend name."""


class IncompatiblePluginError(PluginError):
    """A plugin was built for another version of the core, or of its plugin API."""


class TokenizerError(RendererError):
    """A tokenizer is needed and can't be loaded, or lacks something that is needed."""


class ContractError(RendererError):
    """A backend broke the renderer contract (a bridge that doesn't start with prompt and completion, a wrong return type)."""


class PinMismatchError(RendererError):
    """A pinned ``Resolution`` can't be reproduced here. ``differences`` lists what differs, one line each."""

    differences: tuple[str, ...] = ()


class ParityError(RendererError):
    """``parity="error"``: the renderer differs from the tokenizer's chat template. ``report`` has the probes."""

    report: Any = None


class BridgeDeclined(RendererError):
    """Why a bridge isn't possible; the caller renders the whole conversation again.

    Backends raise it from ``bridge_to_next_turn``; ``try_bridge`` returns it. ``reason`` is one line.
    """


class RendererWarning(UserWarning):
    """A plugin that failed, a fallback taken, a parity difference: said once, with the fix."""
