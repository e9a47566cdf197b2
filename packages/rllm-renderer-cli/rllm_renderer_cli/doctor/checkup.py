"""What ``rllm-renderer doctor`` looks at: one function a question, each yielding findings."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import importlib_metadata
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from rllm_renderer_core.plugin.discovery import find, installed_version, plugins
from rllm_renderer_core.plugin.distributions import CORE_DISTRIBUTION, KNOWN_PLUGINS, OWN, install_command
from rllm_renderer_core.plugin.hooks import PluginInfo
from rllm_renderer_core.version import __version__

from ..commands.plugins import FAULTS
from .asking import answers, claims, install_fix, loads, tried
from .unreadable import entry_points, unreadable
from .variables import Finding, environment, traced, variables

IMPORT_TIMEOUT = 300
"""Seconds for importing an upstream package in a process of its own; torch on a cold disk is slow."""


@dataclass
class CheckUp:
    """The facts of an environment, and what was found."""

    python: str
    core: str
    environment: dict[str, str]
    plugins: list[PluginInfo]
    upstream: dict[str, dict[str, str]]
    """Name of a plugin to the versions of what its backends wrap; empty text where it isn't installed."""
    findings: list[Finding] = field(default_factory=list)
    literal_text: dict[str, str] = field(default_factory=dict)
    """Name of a backend to whether it can have ``marker_text="literal"``: ``"yes"``, ``"no"``, or which renderers can't."""

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.problem]


def examine(*, imports: bool = True, model: str | None = None, tokenizer: Any = None) -> CheckUp:
    """Look at everything.

    Args:
        model: Also try the renderer of this model, on ``tokenizer``.
        tokenizer: That model's.
        imports: Also import what the backends wrap, each package in a process of its own.
    """
    loaded = find()
    watched = list(loads(loaded))  # first: what a module prints, it prints once
    states = plugins(check=True)
    upstream = {
        plugin.name: {name: installed_version(name) or "" for each in plugin.registered for name in each.backend.upstream}
        for plugin in loaded
    }
    checkup = CheckUp(platform.python_version(), __version__, environment(), states, upstream)
    for backend in (each.backend for plugin in loaded for each in plugin.registered):
        own = sorted(backend.own_vocabulary)
        checkup.literal_text[backend.name] = "no" if "*" in own else f"not {', '.join(own)}" if own else "yes"
    installed = _distributions({name for versions in upstream.values() for name in versions})
    checkup.findings += _core_metadata()
    checkup.findings += unreadable()
    causes = {(plugin.name, plugin.distribution): plugin.fault and plugin.fault.__cause__ for plugin in loaded}
    faulty = [plugin for plugin in states if plugin.error is not None and plugin.state in FAULTS]
    checkup.findings += (_of_state(plugin, traced(causes.get((plugin.name, plugin.distribution)))) for plugin in faulty)
    checkup.findings += [*watched, *answers(), *claims()]
    if model or tokenizer is not None:
        checkup.findings += tried(model or "", tokenizer)
    for name, copies in sorted(installed.items()):
        checkup.findings += _copies(name, copies)
        checkup.findings += _files(name, copies[0])
        checkup.findings += _requirements(name, copies[0])
    told = " ".join(finding.what for finding in checkup.findings)
    for plugin, versions in sorted(upstream.items()):
        for name, version in versions.items():
            if version:
                checkup.findings += _imports(plugin, name, installed[canonicalize_name(name)][0]) if imports else ()
            elif f"needs {name}" not in told:
                checkup.findings.append(
                    Finding(f"plugin {plugin!r} wraps {name}, which isn't installed", install_fix(plugin, name))
                )
    checkup.findings += variables(states)
    return checkup


def _distributions(upstream: set[str]) -> dict[str, list[Any]]:
    """The core, all plugins and what they wrap, by name, each with every copy of its metadata in the order of ``sys.path``."""
    wanted = {canonicalize_name(name) for name in (CORE_DISTRIBUTION, *KNOWN_PLUGINS.values(), *upstream)}
    by_name: dict[str, list[Any]] = {}
    for dist in importlib_metadata.distributions():
        name = _name(dist)
        if name and (name in wanted or entry_points(dist)):
            copies = by_name.setdefault(name, [])
            if _place(dist) not in map(_place, copies):
                copies.append(dist)
    return by_name


def _name(dist: Any) -> str:
    """The canonical name, or empty text for what an interrupted uninstall left: a folder without metadata."""
    try:
        return canonicalize_name(dist.metadata.get("Name") or "")
    except (AttributeError, TypeError, OSError):
        return ""


def _place(dist: Any) -> str:
    return os.path.realpath(str(getattr(dist, "_path", "")))


def _core_metadata() -> Iterator[Finding]:
    version = installed_version(CORE_DISTRIBUTION)
    if not version:
        yield Finding(f"{CORE_DISTRIBUTION} runs from a source tree: pip doesn't know of it", "pip install -e .", problem=False)
    elif version != __version__:
        yield Finding(
            f"stale metadata: {CORE_DISTRIBUTION} is {__version__}, its metadata says {version}",
            f"{install_command(CORE_DISTRIBUTION, option='--force-reinstall')}, or pip install -e . in its source tree",
        )


def _of_state(plugin: PluginInfo, trace: str) -> Finding:
    first, *rest = (plugin.error or "").splitlines()
    fix = next((line.strip().removeprefix("fix: ") for line in rest if line.startswith("  fix: ")), "")
    return Finding(f"{plugin.state}: {first}", fix, trace=trace)


def _copies(name: str, copies: list[Any]) -> Iterator[Finding]:
    """The same distribution twice on ``sys.path``: the first is used, and pip may uninstall the other."""
    if len(copies) < 2:
        return
    first, *others = copies
    # An editable install of setuptools leaves an egg-info in the source tree beside the dist-info: that is how it works.
    if len({copy.version for copy in copies}) == 1 and any(map(_editable, copies)):
        yield Finding(f"{name} {first.version} is an editable install whose source tree is on sys.path too", problem=False)
        return
    rest = ", ".join(f"{copy.version} in {_place(copy)}" for copy in others)
    yield Finding(
        f"shadowed: {name} is on sys.path {len(copies)} times: {first.version} in {_place(first)} is used, not {rest}",
        f"take one of the folders off sys.path, or pip uninstall {name} until it is gone, then install it again",
    )


def _editable(dist: Any) -> bool:
    try:
        return bool(json.loads(dist.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


def _recorded(dist: Any) -> list[str]:
    """Files that the installer wrote, relative to the folder of the metadata; empty for an egg-info of a source tree."""
    return [row[0] for row in csv.reader((dist.read_text("RECORD") or "").splitlines()) if row]


def _files(name: str, dist: Any) -> Iterator[Finding]:
    """Metadata whose files are gone, and plugin modules that come from elsewhere than their metadata says."""
    recorded = [file for file in _recorded(dist) if file.endswith(".py")]
    gone = [file for file in recorded if not Path(str(dist.locate_file(file))).exists()]
    again = install_command(name, option="--force-reinstall")
    for module in sorted({point.value.split(":")[0].split(".")[0].strip() for point in entry_points(dist)}):
        origin = _origin(module)
        if origin is None:
            yield Finding(
                f"stale metadata: {name} {dist.version} in {_place(dist)} is listed, but its module {module!r} is gone",
                f"pip uninstall {name}, or {again}",
            )
            return
        own = [file for file in recorded if file in (f"{module}.py", f"{module}/__init__.py") and file not in gone]
        if own and os.path.realpath(str(dist.locate_file(own[0]))) != origin:
            yield Finding(
                f"shadowed: module {module!r} of {name} {dist.version} is imported from {origin}, not from {_place(dist)}",
                f"take that folder off sys.path (PYTHONPATH, the working directory), or pip uninstall {name}",
            )
    if gone:
        yield Finding(
            f"stale metadata: {len(gone)} of {len(recorded)} modules of {name} {dist.version} are gone: {gone[0]}", again
        )


def _origin(module: str) -> str | None:
    """The file that ``import module`` would load; finding it imports nothing."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else os.path.realpath(spec.origin)


def _requirements(name: str, dist: Any) -> Iterator[Finding]:
    wanted = dist.metadata.get("Requires-Python")
    try:
        if wanted and not SpecifierSet(wanted).contains(platform.python_version(), prereleases=True):
            yield Finding(
                f"{name} {dist.version} needs Python {wanted}, this is {platform.python_version()}", "use such a Python"
            )
    except InvalidSpecifier:
        pass
    for text in dist.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        wanted, bare = canonicalize_name(requirement.name), f"{requirement.name}{requirement.specifier}"
        # The core may run from a source tree, without metadata: its own version is what counts.
        version = __version__ if wanted == CORE_DISTRIBUTION else installed_version(requirement.name)
        fix = install_command(wanted, option="--upgrade") if wanted in OWN else f"pip install '{bare}'"
        if not version:
            yield Finding(f"{name} {dist.version} needs {bare}, which isn't installed", fix)
        elif not requirement.specifier.contains(version, prereleases=True):
            yield Finding(f"{name} {dist.version} needs {bare}, installed is {version}", fix)


def _imports(plugin: str, name: str, dist: Any) -> Iterator[Finding]:
    """Whether what a backend wraps can be imported: in another process, as it may be heavy, or crash."""
    modules = sorted({file.split("/")[0] for file in _recorded(dist) if file.count("/") == 1 and file.endswith("/__init__.py")})
    for module in modules:
        code = f"import sys; sys.path[:] = {sys.path!r}; import {module}"
        try:
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=IMPORT_TIMEOUT)
        except subprocess.TimeoutExpired:
            yield Finding(f"{name} {dist.version}, which plugin {plugin!r} wraps, isn't imported in {IMPORT_TIMEOUT} seconds")
            continue
        if done.returncode:
            why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            missing = why.rpartition("No module named ")[2].strip("'\"") if "No module named" in why else ""
            fix = f"pip install {missing.split('.')[0]}" if missing else f"pip install --force-reinstall {name}"
            yield Finding(f"{name} {dist.version}, which plugin {plugin!r} wraps, is installed but broken: {why}", fix)
