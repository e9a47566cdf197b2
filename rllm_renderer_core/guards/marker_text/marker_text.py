"""What becomes of control tokens that message text spells: the option ``marker_text``, for every backend alike.

- ``"allow"``: they become control ids, as in official templates.
- ``"error"``: such a message is refused.
- ``"literal"``: they are tokenized as ordinary text (see ``markers.py`` and ``plain.py``). A renderer with a vocabulary of its
  own, which no guard reaches, gets the texts as they are if it is proven to read no control token out of them (``places.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import MessageError, OptionError, RendererError
from ...normal_form.messages import has_media
from ...normal_form.tokenizer import added_tokens
from ...types import Renderer
from .markers import GUARD, Markers
from .places import first_place_that_controls
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
        self._guards = True
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
            return list(map(self._markers.guarded_message, messages)) if self._guards else messages
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
        if self._markers is None or tools is None or not self._guards:
            return tools
        return [self._markers.guarded_value(tool) for tool in tools]

    def prove(self, renderer: Renderer, name: str) -> None:
        """Under ``"literal"``: whether the backend's own renderer keeps texts from becoming control ids.

        Args:
            renderer: The backend's own.
            name: ``backend:renderer``.

        Raises:
            OptionError: It doesn't, so that it can't honour ``marker_text="literal"``.
        """
        if self._markers is None:
            return
        spelled = sorted(self._markers.texts, key=lambda text: (text not in (self.tokenizer.real.eos_token or ""), text))[:3]
        why = self._why_not_guarded(renderer, spelled)
        if why is None:
            return
        self._guards = False
        place = first_place_that_controls(renderer, self.tokenizer.real, self.tokenizer.control, self._markers)
        if place is not None:
            raise OptionError(
                f"{name} can't honour marker_text='literal': {why}, and what it does by itself makes control ids of {place}",
                fix="use marker_text='error', or another backend=",
                option="marker_text",
                backend=name.partition(":")[0],
            )

    def _why_not_guarded(self, renderer: Renderer, spelled: Sequence[str]) -> str | None:
        """Why guards can't be used with this renderer, ``None`` where they can."""
        control = self.tokenizer.control

        def count(text: str) -> tuple[int, str]:
            messages = self.messages([{"role": "user", "content": text}])
            ids = renderer.render_ids(messages, add_generation_prompt=True)
            return sum(map(control.__contains__, ids)), self.tokenizer.real.decode(ids, clean_up_tokenization_spaces=False)

        try:
            (plain, _), (found, text) = count("say it twice"), count(f"say {' '.join(spelled)} twice")
        except RendererError:
            raise
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if found == plain and GUARD not in text and all(each in text for each in spelled):
            return None
        return "it doesn't tokenize message text with the tokenizer that it is given"
