"""What goes in front of a chat template's source where transformers doesn't hand over what the template reads.

From 5.2x on ``apply_chat_template`` drops the keys of a message whose value is ``None``, which templates ask for
(``message['content'] is none``, DeepSeek V3), and makes text of functions, so that ``strftime_now`` can't be passed. Both are
put back in Jinja. Whether a version does so is tried, not read from its number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

CLOCK = "strftime_now"
"""The function by which templates print today's date."""
DATE = "%Y-%m-%d"

NULLS = (
    "{%- set restored = namespace(messages=[]) -%}"
    "{%- for message in messages -%}"
    "{%- set null = {} if message.content is defined else {'content': none} -%}"
    "{%- set restored.messages = restored.messages + [dict(message, **null)] -%}"
    "{%- endfor -%}"
    "{%- set messages = restored.messages %}\n"
)
"""Messages without content have ``None`` again. Jinja cuts the newline behind a block, as it does in transformers' own."""


def drops_nulls(apply: Callable[..., Any]) -> bool:
    """Whether ``None`` as a content doesn't reach a template."""
    try:
        source = "{{ messages[0].content is defined }}"
        return bool(apply([{"role": "user", "content": None}], chat_template=source, tokenize=False) == "False")
    except Exception:  # a tokenizer that takes no source
        return False


def takes_functions(apply: Callable[..., Any]) -> bool:
    """Whether a function that is passed as a variable can be called in a template."""
    try:
        more = {CLOCK: lambda form: f"{form}!"}
        shown = apply([{"role": "user", "content": "x"}], chat_template=f"{{{{ {CLOCK}('x') }}}}", tokenize=False, **more)
        return bool(shown == "x!")
    except TypeError as error:
        return "not callable" not in str(error)
    except Exception:  # a tokenizer that takes no source
        return True


def clock(source: str, day: Callable[[str], str]) -> str:
    """A macro that prints the day in each form that the template asks for by a literal."""
    forms = dict.fromkeys(found[1] for found in re.findall(rf"{CLOCK}\(\s*(['\"])(.*?)\1\s*\)", source))
    known = {form: day(form) for form in forms}
    branches = "".join(
        f"{{%- if form == {json.dumps(form)} -%}}{{{{- {json.dumps(text)} -}}}}{{%- endif -%}}" for form, text in known.items()
    )
    why = '{{ raise_exception("the day is known in the forms alone that the template names") }}'
    unknown = f"{{%- if form not in {json.dumps(list(known))} -%}}{why}{{%- endif -%}}"
    return f"{{%- macro {CLOCK}(form) -%}}{branches}{unknown}{{%- endmacro %}}\n"
