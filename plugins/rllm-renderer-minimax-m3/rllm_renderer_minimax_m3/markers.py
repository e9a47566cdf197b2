"""The format's reserved tokens: their spelling, their ids, and how text is kept from writing them.

Source: ``tokenizer.json`` (added tokens 200000 to 200060) and ``chat_template.jinja`` of MiniMaxAI/MiniMax-M3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from rllm_renderer_core.errors import TokenizerError

BEGIN = "]~!b["
"""Begins a conversation, once."""
TURN = "]~b]"
"""Begins a turn; the role's name and a newline follow."""
CLOSE = "[e~["
"""Ends a turn: the one token at which sampling stops."""
NS = "]<]minimax[>["
"""Namespace token in front of each tag of a tool call, so that a bare tag in a value means nothing."""
CALLS_OPEN, CALLS_CLOSE = "<tool_call>", "</tool_call>"
THINK_OPEN, THINK_CLOSE = "<mm:think>", "</mm:think>"

_STRUCTURE = frozenset({BEGIN, TURN, CLOSE, NS, CALLS_OPEN, CALLS_CLOSE, THINK_OPEN, THINK_CLOSE})

_MEDIA = ("image", "video", "speech", "frame")
_WORDS = (
    "fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "reponame", "filename", "gh_stars", "issue_start",
    "issue_comment", "issue_closed", "jupyter_start", "jupyter_text", "jupyter_code", "jupyter_output", "jupyter_error",
    "empty_output", "commit_before", "commit_msg", "commit_after", "commit_message", "function_call",
    "code_interpreter", "add_file", "delete_file", "rename_file", "edit_file", "empty_source_file", "repo_struct",
    "code_context", "file_content", "source_files", "pr_start", "review_comment", "filepath", "file_sep", "think",
    "/think",
)  # fmt: skip

RESERVED = (
    _STRUCTURE
    | {"]!p~[", "]!d~[", "]<]vision pad[>[", "<|content_altered_placeholder|>"}
    | {f"]<]{part}{kind}[>[" for kind in _MEDIA for part in ("", "start of ", "end of ")}
    | {f"<{word}>" for word in _WORDS}
)
"""Every string that the published tokenizer turns into a single id by itself."""


class Vocabulary:
    """A tokenizer, with the ids of the format's own tokens.

    Args:
        tokenizer: Anything with ``encode(text, add_special_tokens=False)`` and ``decode(ids, skip_special_tokens=False)``.
        plain: Whether reserved text in messages becomes ordinary text (``True``) or reserved ids (``False``).

    Raises:
        TokenizerError: Where one of the format's tokens isn't a single id.
    """

    def __init__(self, tokenizer: Any, *, plain: bool) -> None:
        if tokenizer is None:
            raise TokenizerError("minimax-m3 needs a tokenizer", fix="pass tokenizer=, that of MiniMaxAI/MiniMax-M3")
        self.tokenizer = tokenizer
        self.plain = plain
        self.begin, self.turn, self.close, self.ns = (self._single(text) for text in (BEGIN, TURN, CLOSE, NS))
        self.calls_open, self.calls_close = self._single(CALLS_OPEN), self._single(CALLS_CLOSE)
        self.think_open, self.think_close = self._single(THINK_OPEN), self._single(THINK_CLOSE)
        added = getattr(tokenizer, "get_added_vocab", None)
        words = RESERVED.union(added()) if callable(added) else RESERVED
        # Longest first, as the tokenizer matches; every proper beginning of one counts at the end of a text, because what
        # the format writes next could complete it.
        anywhere = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
        beginnings = sorted({word[:end] for word in words for end in range(1, len(word))}, key=len, reverse=True)
        self._structure = re.compile("|".join(map(re.escape, _STRUCTURE)))
        self._anywhere = re.compile(anywhere)
        self._dangling = re.compile(f"(?:{'|'.join(map(re.escape, beginnings))})\\Z")
        self._longest = max(map(len, words))
        self._marker = re.compile(f"(?=({anywhere}))")

    def encode(self, text: str) -> list[int]:
        """Ids of ``text`` as the tokenizer reads it, reserved tokens included."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, reserved tokens spelled out. Ids that the tokenizer refuses are left out."""
        if not ids:
            return ""
        try:
            return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))
        except Exception:
            if len(ids) == 1:
                return ""
            half = len(ids) // 2
            return self.decode(ids[:half]) + self.decode(ids[half:])

    def pieces(self, parts: Iterable[str], texts: Iterable[int]) -> list[str]:
        """``parts`` joined, cut where message text would otherwise write a reserved token.

        Args:
            parts: What the format and the messages write, in order.
            texts: Positions in ``parts`` that are message text; the others are the format's.

        Returns:
            Strings to encode one by one; a single one wherever no text is suspicious.
        """
        parts = list(parts)
        joined = "".join(parts)
        if not self.plain or not any(self._suspicious(parts, at) for at in texts):
            return [joined]
        owned = bytearray(len(joined))
        at, written = 0, set(texts)
        for number, part in enumerate(parts):
            if number in written:
                owned[at : at + len(part)] = b"\1" * len(part)
            at += len(part)
        cuts = [0]
        for match in self._marker.finditer(joined):
            start, word = match.start(), match[1]
            # A tag is the format's "<" and ">" around a name of the user's: <filename> stays the one id that the model
            # reads and writes there, but no name may write a token of the structure.
            if owned[start] or (word in _STRUCTURE and any(owned[start : start + len(word)])):
                cuts.append(start + 1)
        cuts.append(len(joined))
        return [joined[left:right] for left, right in pairwise(cuts)]

    def _suspicious(self, parts: Sequence[str], at: int) -> bool:
        """Whether ``parts[at]`` could write a token, alone or with what stands beside it."""
        text = parts[at]
        if at and parts[at - 1].endswith(("<", "</")) and self._structure.search(f"{parts[at - 1][-2:]}{text}>"):
            return True
        return self._anywhere.search(text) is not None or self._dangling.search(text[-self._longest :]) is not None

    def _single(self, text: str) -> int:
        ids = self.encode(text)
        if len(ids) != 1:
            raise TokenizerError(
                f"minimax-m3: the tokenizer has no single id for {text!r}", fix="use the tokenizer of MiniMaxAI/MiniMax-M3"
            )
        return int(ids[0])
