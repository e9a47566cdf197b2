"""Ids as text: a control id is one character that no text has, and nothing of a text is lost at its edges."""

from __future__ import annotations

from rllm_renderer_template.parser.id_text import IdText
from rllm_renderer_template.parser.literals import atoms, common_end, common_start

WORDS = {0: "<s>", 1: "▁tea", 2: "▁cup", 3: "s", 4: "<tool>"}


def sentencepiece(ids):
    """Decodes as SentencePiece's decoders do: the first space of a text is stripped."""
    return "".join(WORDS.get(token, "?") for token in ids).replace("▁", " ").removeprefix(" ")


def test_the_space_behind_a_control_id_stays():
    ids = IdText(sentencepiece, [0, 4], [0])
    shown = ids.show([0, 1, 4, 2, 3])
    assert ids.plain(shown) == "<s> tea<tool> cups" == sentencepiece([0, 1, 4, 2, 3])


def test_a_control_id_is_never_equal_to_its_spelled_text():
    ids = IdText(lambda tokens: "".join("<a>" if token == 9 else chr(token) for token in tokens), [9], [9])
    assert ids.show([9]) not in ids.show([*b"<a>"])
    assert ids.plain(ids.show([9])) == ids.plain(ids.show([*b"<a>"])) == "<a>"


def test_more_control_ids_than_there_are_characters():
    ids = IdText(lambda tokens: "".join(f"<{token}>" for token in tokens), range(3000), [])
    known = ids.show([5])
    fork = ids.fork()
    assert fork.plain(fork.show(range(3000))) == "".join(f"<{token}>" for token in range(3000))
    assert ids.show([5]) == known and fork.show([5]) == known


def test_literals_are_compared_by_atoms():
    assert atoms("<tool_call>\n12") == ["<tool_call>", "\n", "12"]
    assert common_start(["<tool_call>x", "<tools>x"]) == ""
    assert common_end(["a</x>\n", "b</x>\n"]) == "</x>\n"
