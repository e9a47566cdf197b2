"""The core stays readable: limits of size, walls between its rooms, and every plugin behind them."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = ROOT / "rllm_renderer_core"
FILES = sorted(CORE.rglob("*.py"))
PACKAGES = sorted(file.parent.name for file in ROOT.glob("plugins/*/*/__init__.py"))
ROOMS = {folder.parent.name for folder in CORE.glob("*/__init__.py")}

MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_CLASS = 200
MOST_LINES_OF_THE_ROOT = 2_700


def length(file):
    return len(file.read_text(encoding="utf-8").splitlines())


def linter_settings():
    tomllib = pytest.importorskip("tomllib", reason="not proved: Python 3.10 has no reader for pyproject.toml")
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]


def test_no_file_of_the_core_is_long():
    assert not {str(file.relative_to(ROOT)): length(file) for file in FILES if length(file) > MOST_LINES_OF_A_FILE}


def test_no_class_of_the_core_is_long():
    found = {}
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.end_lineno - node.lineno + 1 > MOST_LINES_OF_A_CLASS:
                found[f"{file.relative_to(ROOT)}: {node.name}"] = node.end_lineno - node.lineno + 1
    assert not found


def test_the_root_is_small():
    assert sum(length(file) for file in CORE.glob("*.py")) <= MOST_LINES_OF_THE_ROOT


def test_every_room_and_plugin_stands_behind_the_walls():
    settings = linter_settings()
    assert sorted(settings["root_packages"]) == ["rllm_renderer_core", *PACKAGES]
    layers, face, core, rooms, plugins = settings["contracts"]
    assert layers["exhaustive"] and layers["containers"] == ["rllm_renderer_core"]
    named = {name.strip() for layer in layers["layers"] for name in layer.split("|")}
    assert named == ROOMS | {file.stem for file in CORE.glob("*.py")} - {"__init__"}
    assert face["forbidden_modules"] == ["rllm_renderer_core"]
    assert sorted(core["forbidden_modules"]) == sorted(rooms["source_modules"]) == sorted(plugins["modules"]) == PACKAGES


@pytest.mark.parametrize("module", ["resolver", "renderer", "plugin", "types", "contract.bridging"])
def test_the_root_loads_no_room_but_the_contract(module):
    script = f"import rllm_renderer_core.{module}, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("rllm_renderer_core.")} & ROOMS
    assert rooms <= {"contract"}
