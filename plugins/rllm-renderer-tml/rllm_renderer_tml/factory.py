"""From a family to its renderer: upstream's object, on a vocabulary that is proven to be the passed tokenizer's."""

from __future__ import annotations

from typing import Any

from rllm_renderer_core.errors import RendererError

from .families import Family
from .renderer import TmlRenderer
from .vocabulary import prove_same


def build(family: Family, arguments: dict[str, Any], tokenizer: Any) -> TmlRenderer:
    """Upstream's renderer of the family, behind the adapter.

    Raises:
        TokenizerError: The vocabularies differ.
        RendererError: The installed tml-renderers has no such class.
    """
    arguments = dict(arguments)
    effort = arguments.pop("effort", None)
    upstream = upstream_of(family, arguments)
    renderer = TmlRenderer(upstream, family.name, tokenizer, arguments=arguments, effort=effort)
    prove_same(upstream.tokenizer, tokenizer, family.upstream, renderer.written)
    return renderer


def upstream_of(family: Family, arguments: dict[str, Any]) -> Any:
    """An instance of upstream's class, with the arguments that its rows of the table ask for."""
    from tml_renderers import renderers, tokenizers, v0

    from .corrections import constructor_arguments

    if family.vocabulary is not None:
        return v0.Renderer(getattr(tokenizers, family.vocabulary)())
    made = getattr(renderers, family.upstream, None)
    if made is None:
        raise RendererError(
            f"this tml-renderers has no {family.upstream}", fix="pip install --upgrade tml-renderers, or take another backend="
        )
    return made(**{**arguments, **constructor_arguments(family.name)})
