"""From which message on a conversation is refused: templates and upstream renderers don't tell, so it is tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import MessageError, RenderError

Messages = list[dict[str, Any]]


def locate(error: RenderError | MessageError, render: Callable[[Messages], object], messages: Messages) -> None:
    """Give the error the index of a message without which, and without all behind it, the conversation is rendered.

    Costs a few renders, fewer than twice the logarithm of the length. Index 0 where no beginning can be rendered.
    """
    if error.index is not None or not messages:
        return

    def refused(count: int) -> bool:
        try:
            render(messages[:count])
        except (Exception, SystemExit):
            return True
        return False

    # From the end, as a beginning may be refused for another reason (a system message alone).
    high, low, step = len(messages), len(messages) - 1, 1
    while low > 0 and refused(low):
        high, low, step = low, max(low - step, 0), step * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refused(middle) else (middle, high)
    error.index = low
    first, *rest = str(error).split("\n")
    error.args = ("\n".join([f"{first} (from message {low} on, {messages[low]['role']})", *rest]), *error.args[1:])
