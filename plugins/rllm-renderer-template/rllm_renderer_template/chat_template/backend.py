"""The backend of last resort: the tokenizer's own chat template, with ``SeamBridge`` over it.

A template of unknown make says nothing about bridges, so ``SeamBridge`` proves each of them call by call;
``template_bridge=False`` declines them all.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

from rllm_renderer_core.errors import OptionError
from rllm_renderer_core.normal_form.tokenizer import chat_template, chat_templates, lock_of
from rllm_renderer_core.plugin import Backend, Coverage, Match, Query, Unavailable

from ..memory import options_of, remembered
from ..reasons import reason_of
from .prelude import CLOCK
from .renderer import ChatTemplateRenderer
from .template import TEMPLATE_BACKEND

NO_BRIDGE = "template_bridge=False declines every bridge over a chat template"
THINKING_VARIABLES = ("enable_thinking", "thinking")


class ChatTemplateBackend(Backend):
    """Covers any tokenizer with a chat template, below everything else."""

    name = TEMPLATE_BACKEND
    priority = 0
    options = frozenset({"thinking", "chat_template_kwargs"})

    def covers(self, query: Query) -> Coverage | Unavailable | None:
        if query.renderer not in (None, TEMPLATE_BACKEND):
            return None
        if query.tokenizer is not None and chat_template(query.tokenizer) is None:
            return Unavailable("the tokenizer has no chat template", "install a plugin that renders this model natively")
        reason = "the tokenizer's chat template" if query.tokenizer is not None else "if its tokenizer has a chat template"
        why = why_no_bridge(query)
        bridge = "bridges proven by experiment" if why is None else f"no bridge: {why}"
        match = Match.FALLBACK if query.renderer is None else Match.NAMED
        dated = CLOCK in (chat_template(query.tokenizer) or "")
        proven = why is None
        return Coverage(
            TEMPLATE_BACKEND, match, proven, f"{reason}; {bridge}", why, dated, by_experiment=proven, by_template=True
        )

    def create(self, query: Query, coverage: Coverage) -> ChatTemplateRenderer:
        return ChatTemplateRenderer(query.tokenizer, _template_variables(query), no_bridge=coverage.data)

    def parsing(self, query: Query, coverage: Coverage) -> str:
        try:
            renderer = self.create(query, coverage)
            if renderer.messages is not None:
                return f"harmony's messages; beside it {renderer.parser}"
            shipped = "the checkpoint's own response template, proven by round trips; beside it "
            return f"{shipped if renderer.shipped is not None else ''}{renderer.parser}"
        except Exception as error:  # an option that the template can't honour, a template that doesn't compile
            return f"no completion can be parsed: {reason_of(error)}"

    def renderer_names(self) -> Sequence[str]:
        return (TEMPLATE_BACKEND,)


def why_no_bridge(query: Query) -> str | None:
    """Why no bridge can be proven on this template, ``None`` where one can; without a tokenizer nothing speaks against it."""
    if not query.template_bridge:
        return NO_BRIDGE
    if query.tokenizer is None:
        return None
    with lock_of(query.tokenizer):
        tried: dict[str, str | None] = remembered(query.tokenizer, "bridges", options_of(query))  # asked more than once
        if not tried:
            try:
                tried["why not"] = ChatTemplateRenderer(query.tokenizer, _template_variables(query)).why_no_bridge()
            except Exception as error:  # creating the renderer raises it, with its fix
                tried["why not"] = f"the template can't be tried: {type(error).__name__}"
        return tried["why not"]


def _template_variables(query: Query) -> dict[str, Any]:
    """The options as variables of this template, which must know each of them: Jinja ignores what it doesn't know."""
    kwargs = dict(query.chat_template_kwargs)
    if CLOCK in (chat_template(query.tokenizer) or ""):
        # The day of the resolution in place of today.
        kwargs[CLOCK] = datetime.date.fromisoformat(query.date).strftime
    if query.thinking is None and not query.chat_template_kwargs:
        return kwargs
    from jinja2 import Environment, meta

    environment = Environment(extensions=["jinja2.ext.loopcontrols"])
    known: set[str] = set()
    for source in chat_templates(query.tokenizer).values():
        plain = re.sub(r"\{%-? (?:end)?generation -?%\}", "", source)  # transformers' own blocks, which plain Jinja can't parse
        known |= meta.find_undeclared_variables(environment.parse(plain))
    for key in query.chat_template_kwargs:
        if key not in known:
            text = f"chat_template_kwargs: the chat template has no variable {key!r}"
            raise _cant_honour("chat_template_kwargs", text, f"its variables are {', '.join(sorted(known)) or 'none'}")
    if query.thinking is not None:
        variable = next((name for name in THINKING_VARIABLES if name in known), None)
        if variable is None:
            fix = "leave thinking out, or pass the template's own variable in chat_template_kwargs"
            raise _cant_honour("thinking", f"thinking={query.thinking}: the chat template has no variable for it", fix)
        kwargs[variable] = query.thinking
    return kwargs


def _cant_honour(option: str, text: str, fix: str) -> OptionError:
    return OptionError(f"{text}, backend {TEMPLATE_BACKEND} can't honour it", fix=fix, option=option, backend=TEMPLATE_BACKEND)
