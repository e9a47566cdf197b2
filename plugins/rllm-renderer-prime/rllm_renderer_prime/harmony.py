"""The vocabulary file that gpt-oss needs beside its tokenizer: harmony's encoder has its own, and downloads it where it can.

Where it can't, the file is made from the tokenizer that was passed in, which has the same vocabulary: byte for byte the
published file, or it isn't used.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rllm_renderer_core.errors import TokenizerError

FOLDER_VARIABLE = "TIKTOKEN_ENCODINGS_BASE"
FILE = "o200k_base.tiktoken"
SIZE = 199_998
SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

_environment = threading.Lock()


def with_vocabulary(build: Callable[[], Any], tokenizer: Any) -> Any:
    """What ``build`` builds, with a vocabulary file from the tokenizer where harmony finds none.

    Raises:
        TokenizerError: There is no file, it can't be downloaded, and the tokenizer doesn't have that vocabulary; says which.
    """
    try:
        return build()
    except RuntimeError as error:  # openai_harmony.HarmonyError
        ranks = ranks_of(tokenizer)
        if ranks is None:
            raise _missing(error) from error
        with _folder_with(ranks):
            return build()


def ranks_of(tokenizer: Any) -> bytes | None:
    """The content of o200k_base.tiktoken (a token's bytes in base64 and its id a line), or ``None``: another vocabulary."""
    vocabulary = tokenizer.get_vocab() if callable(getattr(tokenizer, "get_vocab", None)) else {}
    by_id = {index: token for token, index in vocabulary.items() if index < SIZE}
    if len(by_id) != SIZE:
        return None
    letters = _bytes_of_letters()
    try:
        tokens = [bytes(letters[letter] for letter in by_id[index]) for index in range(SIZE)]
    except KeyError:
        return None
    content = b"".join(base64.b64encode(token) + b" %d\n" % index for index, token in enumerate(tokens))
    return content if hashlib.sha256(content).hexdigest() == SHA256 else None


def _bytes_of_letters() -> dict[str, int]:
    """The alphabet of byte-level BPE: printable bytes are themselves, the others the letters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + at): byte for at, byte in enumerate(others)}


@contextmanager
def _folder_with(ranks: bytes) -> Iterator[None]:
    """A folder with the file, named by harmony's variable as long as it loads."""
    with _environment, tempfile.TemporaryDirectory(prefix="rllm-renderer-") as folder:
        with open(os.path.join(folder, FILE), "wb") as file:
            file.write(ranks)
        before = os.environ.get(FOLDER_VARIABLE)
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[FOLDER_VARIABLE]
            else:
                os.environ[FOLDER_VARIABLE] = before


def _missing(error: Exception) -> TokenizerError:
    folder = os.environ.get(FOLDER_VARIABLE)
    where = f"there is none that can be read in {FOLDER_VARIABLE}={folder!r}" if folder else "it can't be downloaded"
    return TokenizerError(
        f"gpt-oss needs the vocabulary file {FILE}: {where} ({str(error).splitlines()[0]}), and the tokenizer that was passed "
        "doesn't have that vocabulary",
        fix=f"pass the model's own tokenizer, or put {FILE} into a folder and set {FOLDER_VARIABLE} to it",
    )
