"""What the installed tinker_cookbook knows: models, renderer names and thinking variants, read without importing torch.

``tinker_cookbook.model_info`` is a light module. ``tinker_cookbook.renderers`` isn't (it imports torch), so the names that its
factory knows are read from its source: they are the constants that ``get_renderer`` compares ``name`` with.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

REGISTRY = "_CUSTOM_RENDERER_REGISTRY"
"""Upstream's table of registered factories, which its ``get_renderer`` consults before its own names."""

FIREWORKS = ("training", "renderer")
"""Package of the Fireworks cookbook's renderers, which register themselves in upstream's table when they are imported."""

VARIANTS = (
    "_disable_thinking",
    "_preserve_thinking",
    "_medium_thinking",
    "_low_thinking",
    "_thinking",
    "_xhigh_reasoning",
    "_high_reasoning",
    "_medium_reasoning",
    "_low_reasoning",
    "_max_reasoning",
    "_no_sysprompt",
)
"""Suffixes that make a variant of a family's renderer."""


def recommended(model: str) -> tuple[str, bool] | None:
    """The renderer that upstream recommends for a model, and whether the very name is listed; ``None`` for unknown models.

    The name isn't listed where upstream has a rule for it: a ``:checkpoint`` suffix, the prefix of a family.

    Raises:
        ImportError: tinker_cookbook isn't importable.
    """
    from tinker_cookbook import model_info

    try:
        name = str(model_info.get_recommended_renderer_name(model))
    except (KeyError, ValueError):  # ConfigurationError is a ValueError
        return None
    return name, model in models()


def models() -> frozenset[str]:
    """All model names that are listed, as ``organization/name``."""
    from tinker_cookbook import model_info

    found: set[str] = set()
    for key, get in vars(model_info).items():
        if key.startswith("get_") and key.endswith("_info"):
            found.update(f"{attributes.organization}/{name}" for name, attributes in get().items())
    return frozenset(found)


def builtin_names() -> frozenset[str]:
    """Names of the renderers that upstream's factory builds itself; empty where tinker_cookbook isn't importable."""
    try:
        spec = importlib.util.find_spec("tinker_cookbook.renderers")
    except ImportError:
        return frozenset()
    return frozenset() if spec is None or spec.origin is None else _names_in(spec.origin)


@functools.cache
def _names_in(path: str) -> frozenset[str]:
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    factories = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "get_renderer"]
    compared = (node for factory in factories for node in ast.walk(factory) if isinstance(node, ast.Compare))
    return frozenset(
        constant.value
        for node in compared
        if isinstance(node.left, ast.Name) and node.left.id == "name"
        for constant in node.comparators
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    )


def registered() -> dict[str, Callable[..., Any]]:
    """Factories registered by the user under names of their own; asked of upstream only where it is imported already.

    Names that upstream builds itself stay upstream's, and those of the Fireworks cookbook belong to its own plugin: whether
    that was imported before must not change what resolves here.
    """
    found = _registry()
    return {
        name: factory for name, factory in found.items() if name not in builtin_names() and not registered_by_fireworks(name)
    }


def registered_by_fireworks(name: str) -> bool:
    """Whether this name was registered by the Fireworks cookbook."""
    module = str(getattr(_registry().get(name), "__module__", "") or "")
    return tuple(module.split(".")[:2]) == FIREWORKS


def _registry() -> dict[str, Callable[..., Any]]:
    return dict(getattr(sys.modules.get("tinker_cookbook.renderers"), REGISTRY, None) or {})


def family(name: str) -> str:
    """The renderer's name without the suffix of its variant."""
    return next((name.removesuffix(suffix) for suffix in VARIANTS if name.endswith(suffix)), name)


def thinking_variant(name: str, thinking: bool | None, names: frozenset[str]) -> str | None:
    """The variant of a renderer that thinks or doesn't, ``None`` where there is none.

    Args:
        name: A renderer's name, a variant itself or not.
        thinking: What is wanted; ``None`` leaves the name as it is.
        names: All names there are.
    """
    if thinking is None:
        return name
    base = family(name)
    off, on = f"{base}_disable_thinking", f"{base}_thinking"
    if off not in names:
        return None
    # With a variant that turns it on (DeepSeek V3), the plain name doesn't think.
    plain_thinks = on not in names
    if thinking:
        wanted = on if not plain_thinks else base if name == off else name
        return wanted if name in (base, wanted) else None
    if name == off or (name == base and not plain_thinks):
        return name
    # A variant that only sets how hard the model thinks: turning thinking off contradicts nothing.
    return off if name == base or name.endswith("_reasoning") else None


def shows_date(name: str) -> bool:
    """Whether upstream's renderer of this name writes today's date: gpt-oss with its system message."""
    return name.startswith("gpt_oss_") and name.endswith("_reasoning")
