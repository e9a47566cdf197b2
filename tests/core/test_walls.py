"""Each import wall of pyproject.toml has been seen to fall: a forbidden import in a copy of the sources breaks its contract."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.whole
ROOT = pathlib.Path(__file__).resolve().parents[2]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

FORBIDDEN = {
    "Core: a module imports only what stands below it": ("rllm_renderer_core/types.py", "rllm_renderer_core.resolving"),
    "Core: no guard imports another": (
        "rllm_renderer_core/guards/turn_end/__init__.py",
        "rllm_renderer_core.guards.marker_text",
    ),
    "Core: nothing inside imports the public face": ("rllm_renderer_core/probing/text.py", "rllm_renderer_core"),
    "Core: imports no other distribution": ("rllm_renderer_core/errors.py", "rllm_renderer_template"),
    "Template: imports nothing that uses a renderer, and no other plugin": (
        "plugins/rllm-renderer-template/rllm_renderer_template/__init__.py",
        "rllm_renderer_prime",
    ),
    "Training: imports the core alone": (
        "packages/rllm-renderer-training/rllm_renderer_training/__init__.py",
        "rllm_renderer_template",
    ),
    "Plugins: import nothing that uses a renderer": (
        "plugins/rllm-renderer-prime/rllm_renderer_prime/__init__.py",
        "rllm_renderer_training",
    ),
    "MiniMax-M3: the core alone, as a third party's plugin": (
        "plugins/rllm-renderer-minimax-m3/rllm_renderer_minimax_m3/__init__.py",
        "rllm_renderer_template",
    ),
    "Plugins: none imports another, but fireworks the adapter of tinker": (
        "plugins/rllm-renderer-tml/rllm_renderer_tml/__init__.py",
        "rllm_renderer_prime",
    ),
}
"""By contract, a file and what it must not import."""


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The sources with their settings, in a folder of their own."""
    target = tmp_path_factory.mktemp("walls")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in ("rllm_renderer_core", "plugins", "packages"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def linted(folder):
    """What the linter says of each contract: ``KEPT`` or ``BROKEN``."""
    path = [folder, *sorted(folder.glob("plugins/*")), *sorted(folder.glob("packages/*"))]
    command = [sys.executable, "-c", LINT, "--no-logo", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "200"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=300)
    said = dict(re.findall(r"^(.+?) (KEPT|BROKEN)(?: \(.*\))?$", done.stdout, re.MULTILINE))
    assert said and (done.returncode == 0) is ("BROKEN" not in said.values()), done.stdout + done.stderr
    return said


def test_all_walls_stand_and_each_is_tried_below(copied):
    assert linted(copied) == dict.fromkeys(FORBIDDEN, "KEPT")


@pytest.mark.parametrize("contract", FORBIDDEN)
def test_a_forbidden_import_breaks_the_wall(copied, contract):
    name, forbidden = FORBIDDEN[contract]
    file = copied / name
    source = file.read_text(encoding="utf-8")
    file.write_text(f"{source}\nimport {forbidden}\n", encoding="utf-8")
    try:
        assert linted(copied)[contract] == "BROKEN"
    finally:
        file.write_text(source, encoding="utf-8")
