"""``marker_text="error"``: message text that spells a control token of the model is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import MessageError
from ..vocabulary import added_tokens
from .messages import has_media


def reserved_texts(tokenizer: Any) -> tuple[str, ...]:
    """The texts of all added tokens."""
    return tuple(sorted(added_tokens(tokenizer)))


def refuse_reserved(messages: list[dict[str, Any]], reserved: Sequence[str]) -> None:
    """Check messages in normal form, all but the assistant's.

    Raises:
        MessageError: A text has one of the reserved texts in it; ``index`` tells the message.
    """
    for index, message in enumerate(messages if reserved else ()):
        text = message["content"] if not has_media(message) else "".join(p.get("text", "") for p in message["content"])
        for each in reserved:
            if message["role"] != "assistant" and each in text:
                raise MessageError(
                    f"message {index} ({message['role']}) contains {each!r}, which is a control token of this model",
                    fix="escape it, or resolve with marker_text='allow'",
                    index=index,
                )
