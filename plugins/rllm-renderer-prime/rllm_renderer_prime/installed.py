"""What the installed ``renderers`` covers, read from its source files instead of importing it.

``import renderers`` takes most of a second (pydantic, the openai client), which a model that it doesn't know shouldn't cost.
So the two dict literals are cut out of its files and evaluated as literals: the names are upstream's own, of the version that
is installed, and nothing runs. Where a release writes them differently, they are imported after all. ``create``, which imports
upstream anyway, refuses to go on if the imported map says something else about the model.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

UPSTREAM = "renderers"
NOT_FAMILIES = frozenset({"auto", "default", "custom"})
"""Names of upstream's configs that aren't families: look-up by name, the silent fallback to the template, import by path."""


@dataclass(frozen=True)
class Installed:
    """Upstream's exact model names with their family, and all names of families."""

    models: Mapping[str, str]
    families: tuple[str, ...]


def installed_upstream() -> Installed | None:
    """What is covered, or ``None`` where the package isn't installed."""
    spec = importlib.util.find_spec(UPSTREAM)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = next(iter(spec.submodule_search_locations))
    stamps = []
    for name in ("base.py", "configs.py"):
        try:
            stamps.append(os.stat(os.path.join(folder, name)).st_mtime_ns)
        except OSError:  # another package of this name
            return None
    return _read(folder, *stamps)


@functools.lru_cache(maxsize=4)
def _read(folder: str, *stamps: int) -> Installed:
    """Cached by folder and modification times: another version that is installed meanwhile is read anew."""
    models = _literal(os.path.join(folder, "base.py"), "MODEL_RENDERER_MAP")
    configs = _literal(os.path.join(folder, "configs.py"), "_CONFIG_BY_NAME")
    if models is None or not all(isinstance(value, str) for value in models.values()):
        models = dict(importlib.import_module(f"{UPSTREAM}.base").MODEL_RENDERER_MAP)
    if configs is None:
        configs = dict.fromkeys(importlib.import_module(f"{UPSTREAM}.configs")._CONFIG_BY_NAME)  # noqa: SLF001 - no public name
    return Installed({key: str(value) for key, value in models.items()}, tuple(sorted(configs.keys() - NOT_FAMILIES)))


def _literal(file: str, name: str) -> dict[str, object] | None:
    """The module-level dict ``name`` with its text keys; values that aren't literals become ``None``."""
    with open(file, encoding="utf-8") as source:
        found = re.search(rf"^{name}\b[^=\n]*= *(\{{$.*?^\}})", source.read(), re.MULTILINE | re.DOTALL)
    if found is None:
        return None
    try:
        tree = ast.parse(found[1], mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(tree, ast.Dict):
        return None
    out: dict[str, object] = {}
    for key, value in zip(tree.keys, tree.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            return None
        out[key.value] = value.value if isinstance(value, ast.Constant) else None
    return out
