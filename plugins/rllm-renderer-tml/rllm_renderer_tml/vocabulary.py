"""Whether the tokenizer that was passed in is the vocabulary that upstream has inside: proven, never assumed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rllm_renderer_core.errors import TokenizerError
from rllm_renderer_core.normal_form.ids import common_prefix
from rllm_renderer_core.normal_form.tokenizer import added_tokens

FIX = "pass the model's own, unchanged tokenizer, or another backend="

TEXTS = (
    "How many apples are in the jar? It's fifteen, isn't it: they'd've said so!",
    "Größe, naïve façade, Ærøskøbing, İstanbul, ΣΊΣΥΦΟΣ, Привет мир, čeština",
    "日本語のテキスト、汉字和标点。한국어 문장 ทดสอบภาษาไทย हिन्दी में पाठ עברית العربية ελληνικά",
    "e\u0301 vs \u00e9, \ufb01 ligature, \u00bd, \u2460, zero\u200bwidth, no\u00a0break, \u3000wide, \ufeffmark",
    "😀 👩‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️ \U0001f9ff\U00020000\U0010fffd",
    "0 7 42 365 1024 99999 123456 1234567890 3.14159 -1e-07 1,000,000 0x1F ١٢٣ Ⅻ 10½",
    "  two   three    four\ttab\t\ttabs \n newline \n\n\n three \r\n windows \r mac\n   indented\n",
    "def f(x: int) -> str:\n    return f\"{x!r}\"  # comment\n\n\tif (a && b) || c == d { x += 1; }\n",
    '{"key": [1, 2.5, null, true, "a \\"b\\"\\n"], "größe": {"x": {}}}\n<a href="x">&amp;</a> </tag><br/>',
    "snake_case camelCase SCREAMING_CASE kebab-case a.b.c ::path/to/file.py C:\\dir\\x @user #tag $VAR %d `code` ~~~ --- ***",
    "I'm you're he'll WE'VE it'S don'T aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ................ =================",
    " leading", "trailing ", "\n", " ", "\t", "\u00a0", "a\n", "\na", ".\n\n", "\x00\x01\x7f\x85",
)  # fmt: skip
"""What both must encode alike: scripts, combining marks, emoji, numbers, white space, code, markup."""


def prove_same(upstream: Any, tokenizer: Any, name: str, written: Collection[int]) -> None:
    """Compares control tokens by id, size, and the ids of a fixed set of texts.

    Args:
        upstream: ``tml_renderers``' own tokenizer.
        tokenizer: The one that was passed in.
        name: Of the renderer, for the error.
        written: Ids that the renderer writes or stops at, whatever the conversation: each of them must be there.

    Raises:
        TokenizerError: With the first difference.
    """
    difference = _first_difference(upstream, tokenizer, written)
    if difference is not None:
        raise TokenizerError(f"the tokenizer isn't the vocabulary of tml_renderers' {name}: {difference}", fix=FIX)


def _first_difference(upstream: Any, tokenizer: Any, written: Collection[int]) -> str | None:
    control = {int(upstream.encode_special(name)) for name in upstream.special_tokens()}
    added = added_tokens(tokenizer)
    by_id = {token: text for text, token in added.items()}
    unnamed = set()
    for token in sorted(control):
        text = upstream.decode([token])
        mine = by_id.get(token)
        if mine is None:
            unnamed.add(token)
        elif mine != text and not _reserved(text):
            return f"id {token} is {mine!r} here and {text!r} there"
    texts = {upstream.decode([token]): token for token in control}
    for text, token in sorted(added.items(), key=lambda pair: pair[1]):
        if token not in control:
            there = f"is {texts[text]}" if text in texts else "doesn't exist"
            return f"the added token {text!r} is id {token} here and {there} there"
    size = len(tokenizer)
    if not _has(upstream, size - 1):
        return f"it has ids up to {size - 1}, which don't exist there"
    if any(_has(upstream, token) and token not in unnamed for token in range(size, size + 16)):
        return f"it ends at id {size - 1}, where the other goes on"
    # A control token that isn't named here must be one that this format never writes: reserved, or of another modality behind
    # the end of a vocabulary that is the text model's alone (Qwen3.5's audio tokens).
    lacking = [token for token in unnamed if token in written or (token < size and not _reserved(upstream.decode([token])))]
    if lacking:
        return f"id {min(lacking)} is {upstream.decode([min(lacking)])!r} there and no control token here"
    for text in TEXTS:
        here, there_ids = list(tokenizer.encode(text, add_special_tokens=False)), list(upstream.encode_ordinary(text))
        if here != there_ids:
            at = common_prefix(here, there_ids)
            return f"{text[:40]!r} is {here[at : at + 4]} here and {there_ids[at : at + 4]} there, from its token {at} on"
    return None


def _reserved(text: str) -> bool:
    """Whether upstream's token has no meaning: no format writes it, whatever another checkpoint calls it."""
    lowered = text.lower()
    return any(word in lowered for word in ("reserved", "special_", "unused", "extra", "holder", "dummy"))


def _has(upstream: Any, token: int) -> bool:
    try:
        upstream.decode_bytes([token])
    except Exception:  # upstream's errors have no common type
        return False
    return True
