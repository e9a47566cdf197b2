"""Images and audio: into upstream's parts, and back as placeholder ids beside upstream's own spans."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rllm_renderer_core.errors import UnsupportedContentError
from rllm_renderer_core.normal_form.tokenizer import added_tokens
from rllm_renderer_core.types import Message

IMAGE, AUDIO = "image", "audio"
KINDS = {"image": IMAGE, "image_url": IMAGE, "audio": AUDIO, "input_audio": AUDIO, "audio_url": AUDIO}
SPANS = {"ImageAssetPointerTokenSpan": IMAGE, "DmelTokenSpan": AUDIO}
"""Upstream's spans that aren't text."""

PLACEHOLDERS: Mapping[str, Mapping[str, str]] = {
    "Qwen35": {IMAGE: "<|image_pad|>"},
    "Qwen38": {IMAGE: "<|image_pad|>"},
    "KimiK25": {IMAGE: "<|media_pad|>"},
    "v0": {IMAGE: "<|unused_200054|>", AUDIO: "<|unused_200053|>"},
}
"""What each class of upstream carries: the token that the model's own processor repeats, once a position."""

BEHIND_IMAGES: Mapping[str, str] = {"KimiK25": "\n"}
"""What templates write there, and upstream doesn't."""

NOT_IN_RESULTS = frozenset({"KimiK25"})
"""Where upstream writes images of results otherwise than the template."""


class Media:
    """What one renderer carries.

    Args:
        name: Of the renderer, by which errors name it.
        tokenizer: The tokenizer that was passed in.
    """

    def __init__(self, name: str, tokenizer: Any) -> None:
        self._name = name
        texts, added = PLACEHOLDERS.get(name.partition(".")[0], {}), added_tokens(tokenizer)
        self._ids = {kind: added[text] for kind, text in texts.items() if text in added}
        # Inkling writes each part as a message of its own; the others write texts side by side as one.
        self._joins = name != "v0"
        self._behind = BEHIND_IMAGES.get(name, "")
        self._roles = {"user", "assistant"} if name in NOT_IN_RESULTS else {"user", "assistant", "tool"}

    def __bool__(self) -> bool:
        return bool(self._ids)

    def parts(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with their parts as upstream takes them.

        Raises:
            UnsupportedContentError: For what isn't carried, and for addresses, which would have to be fetched.
        """
        return [
            message
            if isinstance(message["content"], str)
            else {**message, "content": list(self._converted(index, message["role"], message["content"]))}
            for index, message in enumerate(messages)
        ]

    def _converted(self, index: int, role: str, parts: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        text = ""
        for part in parts:
            if part["type"] == "text":
                if self._joins:
                    text += part["text"]
                else:
                    yield part
                continue
            if text:
                yield {"type": "text", "text": text}
            text = self._behind
            kind = KINDS.get(part["type"])
            if kind not in self._ids or role not in self._roles:
                raise UnsupportedContentError(
                    f"message {index} ({role}): renderer {self._name!r} can't carry {part['type']} content there",
                    fix="remove the part",
                    index=index,
                )
            try:
                yield _image(part) if kind == IMAGE else _audio(part)
            except ValueError as error:
                raise UnsupportedContentError(f"message {index} ({role}): {error}", fix="load it first", index=index) from error
        if text:
            yield {"type": "text", "text": text}

    def ids_of(self, span: Any) -> list[int]:
        """The placeholders of a span that isn't text.

        Raises:
            UnsupportedContentError: The span is of no kind that is carried.
        """
        kind = SPANS.get(type(span).__name__)
        if kind not in self._ids:
            raise UnsupportedContentError(
                f"renderer {self._name!r} made a {type(span).__name__}, which can't be given as ids",
                fix="remove the part that isn't text",
            )
        return [self._ids[kind]] * (span.num_tokens if kind == IMAGE else len(span))

    def data(self, ids: Sequence[int], spans: Sequence[Any]) -> RenderedMedia | None:
        """Upstream's spans with the ids that were rendered in the end between them; ``None`` where all is text."""
        if not spans:
            return None
        from tml_renderers import chat

        out: list[Any] = []
        at = 0
        for span in spans:
            own = self.ids_of(span.span)
            start = next(place for place in range(at, len(ids)) if ids[place : place + len(own)] == own)
            if start > at:
                out.append(chat.TokenSpan(chat.EncodedTextTokenSpan(list(ids[at:start]))))
            out.append(span)
            at = start + len(own)
        return RenderedMedia([*out, chat.TokenSpan(chat.EncodedTextTokenSpan(list(ids[at:])))] if at < len(ids) else out)


@dataclass(frozen=True)
class RenderedMedia:
    """What stands behind the placeholders of a prompt.

    Attributes:
        spans: Upstream's spans of the whole prompt: text ids, images with their bytes, audio as mel frames.
    """

    spans: list[Any]

    @property
    def chunks(self) -> list[Any]:
        """The same as chunks of a ``tinker.ModelInput``. Needs tinker."""
        from tml_renderers import tinker

        return list(tinker.token_spans_to_tinker_chunks(self.spans))


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    image = part.get(part["type"])
    address: Any = image.get("url") if isinstance(image, Mapping) else image
    if hasattr(address, "save"):  # a PIL image
        written = io.BytesIO()
        address.save(written, format="PNG")
        address = f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
    if not isinstance(address, str) or not address.startswith("data:"):
        raise ValueError("an image must be a PIL image or a data: URI; nothing is fetched while rendering")
    return {"type": "image_url", "image_url": {"url": address}}


def _audio(part: Mapping[str, Any]) -> dict[str, Any]:
    audio = part.get(part["type"])
    if isinstance(audio, Mapping) and "data" in audio:
        return {"type": "input_audio", "input_audio": dict(audio)}
    address = audio.get("url") if isinstance(audio, Mapping) else audio
    if isinstance(address, bytes):
        return {"type": "input_audio", "input_audio": {"data": base64.b64encode(address).decode(), "format": "wav"}}
    if isinstance(address, str) and address.startswith("data:audio/wav;base64,"):
        return {"type": "input_audio", "input_audio": {"data": address.partition(",")[2], "format": "wav"}}
    raise ValueError("audio must be OpenAI's input_audio, the bytes of a WAV file or its data: URI; nothing is fetched")
