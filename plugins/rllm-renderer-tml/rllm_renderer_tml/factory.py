"""From a family to its renderer: upstream's object, on a vocabulary that is proven to be the passed tokenizer's."""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.errors import OptionError, RendererError
from rllm_renderer_core.plugin import Coverage, Query

from .corrections.table import constructor_arguments
from .families import BY_NAME, Family
from .renderer import TmlRenderer
from .vocabulary import prove_same


def create_renderer(query: Query, coverage: Coverage) -> TmlRenderer:
    """Upstream's renderer of ``coverage.renderer``, behind the adapter.

    Raises:
        OptionError: An option can't be honoured.
        TokenizerError: The vocabularies differ.
        RendererError: The installed tml-renderers has no such class.
    """
    family, tokenizer = BY_NAME[coverage.renderer], query.tokenizer
    arguments = _arguments(family, query, coverage)
    effort = arguments.pop("effort", None)
    upstream = _upstream(family, arguments)
    renderer = TmlRenderer(upstream, family.name, tokenizer, arguments, effort)
    prove_same(upstream.tokenizer, tokenizer, family.upstream, renderer.turns.written)
    return renderer


def _upstream(family: Family, arguments: dict[str, Any]) -> Any:
    """An instance of upstream's class, with the arguments that its rows of the table ask for."""
    from tml_renderers import renderers, tokenizers, v0

    if family.vocabulary is not None:
        return v0.Renderer(getattr(tokenizers, family.vocabulary)())
    made = getattr(renderers, family.upstream, None)
    if made is None:
        raise RendererError(
            f"this tml-renderers has no {family.upstream}", fix="pip install --upgrade tml-renderers, or take another backend="
        )
    return made(**{**arguments, **constructor_arguments(family.name)})


def _arguments(family: Family, query: Query, coverage: Coverage) -> dict[str, Any]:
    """Arguments of upstream's constructor for the options of the query."""
    given = dict(query.chat_template_kwargs)
    known = {*family.variables, *({family.switch} if family.switch else ())}
    for name in given:
        if name not in known:
            has = ", ".join(sorted(known)) or "no variables"
            raise _cannot("chat_template_kwargs", f" {name!r}: {family.name} has {has}", f"leave {name} out")
    thinking = given.pop(family.switch, None) if family.switch else None
    if thinking is not None and query.thinking is not None and thinking is not query.thinking:
        raise OptionError(
            f"thinking={query.thinking} and chat_template_kwargs {family.switch}={thinking!r} contradict each other",
            fix="pass one of them",
            option="thinking",
            backend="tml",
        )
    wanted = query.thinking if thinking is None else thinking
    arguments = {**family.fixed, **(coverage.data or {})}
    if wanted is not None:
        if wanted not in family.thinking:
            raise _cannot("thinking", f"={wanted}: {family.name} has no such switch", "leave thinking out")
        arguments.update(family.thinking[wanted])
    for name, value in given.items():
        found = family.variables[name](value)
        if found is None:
            raise _cannot("chat_template_kwargs", f" {name}={value!r}: {family.name} has no such value", "correct the value")
        arguments.update(found)
    return arguments


def _cannot(option: str, what: str, fix: str) -> OptionError:
    return OptionError(f"backend 'tml' can't honour {option}{what}", fix=fix, option=option, backend="tml")
