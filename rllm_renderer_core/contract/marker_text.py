"""What becomes of control tokens that message text spells: the option ``marker_text``, for every backend alike.

- ``"allow"``: they become control ids, as in official templates.
- ``"error"``: such a message is refused.
- ``"literal"``: they are tokenized as ordinary text (see ``markers.py`` and ``plain.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import MessageError, OptionError, RendererError
from ..types import ParsedResponse
from ..vocabulary import added_tokens
from .markers import GUARD, Markers, without_guards
from .messages import has_media
from .plain import LiteralTokenizer


class MarkerText:
    """One choice of ``marker_text`` on one tokenizer.

    Attributes:
        mode: ``"allow"``, ``"error"`` or ``"literal"``.
        tokenizer: The tokenizer for the backend: the user's own, or one that can't be made to write control ids.

    Raises:
        TokenizerError: ``"literal"`` can't be had with this tokenizer.
    """

    def __init__(self, mode: str, tokenizer: Any) -> None:
        self.mode = mode
        self.tokenizer = tokenizer
        self._reserved: tuple[str, ...] = ()
        self._markers: Markers | None = None
        if mode == "error":
            self._reserved = tuple(sorted(added_tokens(tokenizer)))
        if mode == "literal":
            self.tokenizer = LiteralTokenizer(tokenizer)
            self._markers = self.tokenizer.markers

    def messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Messages in normal form, for the backend.

        Raises:
            MessageError: Under ``"error"``, a text that spells a control token; ``index`` tells the message.
        """
        if self._markers is not None:
            return self._markers.guarded_messages(messages)
        for index, message in enumerate(messages if self._reserved else ()):
            text = message["content"] if not has_media(message) else "".join(p.get("text", "") for p in message["content"])
            for each in self._reserved:
                if message["role"] != "assistant" and each in text:
                    raise MessageError(
                        f"message {index} ({message['role']}) contains {each!r}, which is a control token of this model",
                        fix="escape it, or resolve with marker_text='literal' (it stays text) or 'allow'",
                        index=index,
                    )
        return messages

    def tools(self, tools: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        """Declarations in normal form, for the backend."""
        if self._markers is None or tools is None:
            return tools
        return [self._markers.guarded_value(tool) for tool in tools]

    def parsed(self, out: ParsedResponse) -> ParsedResponse:
        """What the backend parsed, with the texts as they were sampled."""
        return out if self._markers is None else without_guards(out)

    def prove(self, render_ids: Callable[[list[dict[str, Any]]], Sequence[int]], name: str) -> None:
        """Under ``"literal"``: whether the backend tokenizes message text with the tokenizer that it was given.

        Args:
            render_ids: Messages in normal form to ids, by the backend's own renderer.
            name: ``backend:renderer``.

        Raises:
            OptionError: It doesn't, so that it can't honour ``marker_text="literal"``.
        """
        if self._markers is None:
            return
        control = self.tokenizer.control
        spelled = sorted(self._markers.texts, key=lambda text: (text not in (self.tokenizer.real.eos_token or ""), text))[:3]

        def count(text: str) -> tuple[int, str]:
            ids = list(render_ids(self.messages([{"role": "user", "content": text}])))
            return sum(map(control.__contains__, ids)), self.tokenizer.real.decode(ids, clean_up_tokenization_spaces=False)

        try:
            (plain, _), (found, text) = count("say it twice"), count(f"say {' '.join(spelled)} twice")
        except RendererError:
            raise
        except Exception as error:
            raise _not_honoured(name, f"{type(error).__name__}: {error}") from error
        if found != plain or GUARD in text or any(each not in text for each in spelled):
            raise _not_honoured(name, "it doesn't tokenize message text with the tokenizer that it is given")


def _not_honoured(name: str, why: str) -> OptionError:
    return OptionError(
        f"{name} can't honour marker_text='literal': {why}",
        fix="use marker_text='error', or another backend=",
        option="marker_text",
        backend=name.partition(":")[0],
    )
