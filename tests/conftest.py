"""What all tests share: plugins of this tree that are discoverable without an install, a clean environment, fixtures.

A plugin that is installed is tested as installed, with its real metadata. One that isn't gets a ``*.dist-info`` made from its
pyproject.toml, in a folder that lives as long as the session and is on ``sys.path`` of subprocesses too.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import importlib_metadata
import pytest
import run_size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
_CREATED = pytest.StashKey[list[str]]()

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

pytest_addoption = run_size.pytest_addoption
pytest_pycollect_makeitem = run_size.pytest_pycollect_makeitem
pytest_collection_modifyitems = run_size.pytest_collection_modifyitems
pytest_terminal_summary = run_size.pytest_terminal_summary


def pytest_configure(config: pytest.Config) -> None:
    """Before collection, since test modules may import plugins."""
    run_size.set_size(config)
    folders = [] if importlib.util.find_spec("rllm_renderer_core") else [str(ROOT)]
    created = tempfile.mkdtemp(prefix="rllm-renderer-metadata-")
    config.stash[_CREATED] = [created]
    for file in sorted([*ROOT.glob("plugins/*/pyproject.toml"), *ROOT.glob("packages/*/pyproject.toml")]):
        project = tomllib.loads(file.read_text(encoding="utf-8"))
        name = project["project"]["name"]
        try:
            importlib_metadata.version(name)
        except importlib_metadata.PackageNotFoundError:
            _write_metadata(pathlib.Path(created), file.parent, project)
            folders += [created, str(file.parent)]
    folders = list(dict.fromkeys(folders))
    sys.path[:0] = folders
    # Subprocesses see the same.
    old = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *([old] if old else [])])
    importlib.invalidate_caches()


def pytest_unconfigure(config: pytest.Config) -> None:
    for folder in config.stash.get(_CREATED, []):
        shutil.rmtree(folder, ignore_errors=True)


def _write_metadata(target: pathlib.Path, folder: pathlib.Path, project: dict[str, Any]) -> None:
    about = project["project"]
    info = target / f"{about['name'].replace('-', '_')}-{_version(folder, project)}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {about['name']}", f"Version: {_version(folder, project)}"]
    lines += [f"Requires-Dist: {each}" for each in about.get("dependencies", [])]
    for extra, requirements in about.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {each}; extra == "{extra}"' for each in requirements]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = ""
    for group, entries in about.get("entry-points", {}).items():
        text += f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(text, encoding="utf-8")


def _version(folder: pathlib.Path, project: dict[str, Any]) -> str:
    """The version, read without importing the plugin."""
    if "version" in project["project"]:
        return str(project["project"]["version"])
    module = project["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")[0].replace(".", "/")
    file = next(file for file in (folder / module / "__init__.py", folder / f"{module}.py") if file.exists())
    found = re.search(r'^__version__ = "([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{file} has no __version__"
    return found[1]


@pytest.fixture(autouse=True)
def ids_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of plugins compare ids, also with templates that leave things out: what a render doesn't show is the core's matter,
    in tests/core/test_dropped.py."""
    if request.path.parent.name not in ("prime", "tinker", "fireworks", "minimax_m3"):
        yield
        return
    from rllm_renderer_core.plugin import rendering_probes

    with rendering_probes():
        yield


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the user's shell decides a test, and what was warned about in one test is warned about in the next."""
    from rllm_renderer_core.plugin import discovery

    for name in [name for name in os.environ if name.startswith("RLLM_RENDERER_")]:
        monkeypatch.delenv(name)
    for name in ("COLUMNS", "LINES"):  # pytest-xdist sets the width of a terminal, by which a command would wrap its lines
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(discovery, "_warned", set())


@pytest.fixture
def core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core, and what the test itself installs: the project's own plugins are hidden, and not hinted at either."""
    _hide_plugins(monkeypatch, kept=())


@pytest.fixture
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chat template alone: the project's other plugins are hidden, and not hinted at either."""
    _hide_plugins(monkeypatch, kept=("chat-template",))


def _hide_plugins(monkeypatch: pytest.MonkeyPatch, kept: tuple[str, ...]) -> None:
    from rllm_renderer_core.plugin import discovery

    find = discovery.find
    hidden = {(plugin.name, plugin.distribution) for plugin in find() if plugin.name not in kept}
    monkeypatch.setattr(discovery, "find", lambda: [p for p in find() if (p.name, p.distribution) not in hidden])
    for name in [name for name in discovery.KNOWN_PLUGINS if name not in kept]:
        monkeypatch.delitem(discovery.KNOWN_PLUGINS, name)


Install = Callable[..., pathlib.Path]


@pytest.fixture
def install(tmp_path: pathlib.Path) -> Iterator[Install]:
    """``install(name, version, source)``: a fake distribution with one plugin, until the end of the test.

    ``source`` is the plugin module's. The plugin is called like the distribution, without "rllm-renderer-".
    """
    from rllm_renderer_core.testing import fake_distribution

    with contextlib.ExitStack() as stack:
        count = 0

        def install(
            name: str,
            version: str = "1.0",
            source: str = "",
            *,
            plugin: str | None = None,
            path: pathlib.Path | None = None,
            **more: Any,
        ) -> pathlib.Path:
            nonlocal count
            count += 1
            module = f"plugin_{re.sub(r'[^a-z0-9]', '_', name.lower())}_{count}"
            more.setdefault("entry_points", {plugin or name.removeprefix("rllm-renderer-"): module})
            more["modules"] = {module: source, **more.get("modules", {})}
            return stack.enter_context(fake_distribution(path or tmp_path / f"site{count}", name, version, **more))

        yield install
