"""The house: budgets of lines, files that can be read in one go, and every distribution behind the import walls."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = ROOT / "rllm_renderer_core"
PLUGINS, USERS = (
    {file.parent.name: file.parent for file in ROOT.glob(f"{kind}/*/*/__init__.py")} for kind in ("plugins", "packages")
)
PACKAGES = {"rllm_renderer_core": CORE, **PLUGINS, **USERS}
FILES = {
    f"{name}/{file.relative_to(folder).as_posix()}": file for name, folder in PACKAGES.items() for file in folder.rglob("*.py")
}
"""Every module of every distribution, by its package and path within it."""

MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_CLASS = 200
MOST_FILES_OF_A_FOLDER = 12

GUARDS, PROBING, TESTING = (rf"rllm_renderer_core/{room}/" for room in ("guards", "probing", "testing"))
KERNEL = r"rllm_renderer_core/((plugin|normal_form|renderer|resolving)/|\w+\.py)"
BUDGETS = {
    "core": (7_000, f"{KERNEL}|{GUARDS}|{PROBING}"),
    "kernel": (4_200, KERNEL),
    "guards": (2_500, GUARDS),
    "probing": (300, PROBING),
    "testing": (900, TESTING),
    "template": (5_500, "rllm_renderer_template/"),
    "training": (3_500, "rllm_renderer_training/"),
    "cli": (2_600, "rllm_renderer_cli/"),
    "rllm": (1_300, "rllm_renderer_rllm/"),
    "verl": (300, "rllm_renderer_verl/"),
}
"""The most lines of each part, and the beginning of the names of its files."""


def lines(file):
    return len(file.read_text(encoding="utf-8").splitlines())


def above(most, sizes):
    """What exceeds the limit."""
    return {name: size for name, size in sizes.items() if size > most}


def linter_settings():
    tomllib = pytest.importorskip("tomllib", reason="not proved: Python 3.10 has no reader for pyproject.toml")
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]


@pytest.mark.parametrize("part", BUDGETS)
def test_each_part_is_within_its_budget_of_lines(part):
    most, beginning = BUDGETS[part]
    counted = [lines(file) for name, file in FILES.items() if re.match(beginning, name)]
    assert counted and not above(most, {part: sum(counted)})


def test_each_file_of_the_core_is_counted_in_one_part():
    for name in FILES:
        parts = [part for part, (_, beginning) in BUDGETS.items() if part != "core" and re.match(beginning, name)]
        assert len(parts) == name.startswith("rllm_renderer_core/") or parts == [name.partition("/")[0].split("_")[-1]], name


def test_no_file_is_long():
    assert not above(MOST_LINES_OF_A_FILE, {name: lines(file) for name, file in FILES.items()})


def test_no_class_is_long():
    sizes = {
        f"{name}: {node.name}": node.end_lineno - node.lineno + 1
        for name, file in FILES.items()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    assert not above(MOST_LINES_OF_A_CLASS, sizes)


def test_no_folder_is_crowded():
    folders = [name.rpartition("/")[0] for name in FILES]
    assert not above(MOST_FILES_OF_A_FOLDER, {folder: folders.count(folder) for folder in folders})


def test_every_module_of_the_core_has_its_layer():
    layers, _, face, *_ = linter_settings()["contracts"]
    assert layers["exhaustive"] and layers["containers"] == face["forbidden_modules"] == ["rllm_renderer_core"]
    named = {name.strip() for layer in layers["layers"] for name in layer.split("|")}
    rooms = {folder.parent.name for folder in CORE.glob("*/__init__.py")}
    assert named == rooms | {file.stem for file in CORE.glob("*.py")} - {"__init__"}


def test_every_distribution_stands_behind_the_walls():
    """A new one is given its place: what it must not import, and who must not import it."""
    settings = linter_settings()
    assert sorted(settings["root_packages"]) == sorted(PACKAGES)
    forbidden = {name: set() for name in PACKAGES}
    for contract in settings["contracts"]:
        for name in forbidden.keys() & contract.get("source_modules", ()):
            forbidden[name] |= {*contract["forbidden_modules"]}
        if contract["type"] == "independence":
            independent = {*contract["modules"]}
    assert forbidden["rllm_renderer_core"] == PLUGINS.keys() | USERS.keys()
    assert independent == PLUGINS.keys() - {"rllm_renderer_template"} <= forbidden["rllm_renderer_template"]
    assert all(USERS.keys() <= forbidden[name] for name in PLUGINS)
    assert forbidden["rllm_renderer_training"] == PLUGINS.keys() | USERS.keys() - {"rllm_renderer_training"}


def test_only_the_list_of_distributions_names_the_chat_template_plugin():
    naming = re.compile(r"""["']chat-template["']|["']rllm.renderer.template|import rllm_renderer_template""")
    named = [name for name, file in FILES.items() if name.startswith(CORE.name) and naming.search(file.read_text("utf-8"))]
    assert named == ["rllm_renderer_core/plugin/distributions.py"]


@pytest.mark.parametrize("module", ["plugin.discovery", "types", "renderer.resolution", "resolving.request"])
def test_what_asks_for_a_backend_loads_no_guard_and_no_probe(module):
    command = [sys.executable, "-c", f"import rllm_renderer_core.{module}, sys; print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert f"rllm_renderer_core.{module}" in loaded
    assert not [name for name in loaded if name.startswith(("rllm_renderer_core.guards", "rllm_renderer_core.probing"))]
