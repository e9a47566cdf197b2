"""A call's text in one form: what may be written in several ways without meaning another thing."""

from __future__ import annotations

import json
import re

from ...normal_form.arguments import json_value

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>(?<![\w.])-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<blank>\s+)|(?P<other>.)""",
    re.DOTALL,
)


def canonical(text: str) -> list[str]:
    """The parts of a text without its blanks; JSON texts, numbers and words in one form each."""
    out = []
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind == "string":
            try:
                token = json.dumps(json.loads(token), ensure_ascii=False)
            except ValueError:
                token = "".join(token.split())
        elif kind == "number":
            token = _number(token)
        elif kind == "word" and token.lower() in ("true", "false"):
            token = token.lower()
        elif kind == "word" and token == "None":
            token = "null"
        elif kind == "blank":
            token = ""
        if token:
            out.append(token)
    return out


def _number(text: str) -> str:
    try:
        value = json_value(text)
    except ValueError:
        return text
    return repr(int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value)


def canonical_strings(raw: str) -> str:
    return "".join("".join(canonical(match.group())) for match in re.finditer(r'"(?:[^"\\]|\\.)*"', raw, re.DOTALL))
