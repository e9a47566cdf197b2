"""Our distributions with what rLLM requires, solved by pip: what both revisions pin, and what their patches require instead.

The Fireworks cookbook is on no index: a project of its name stands in for it, with the requirements of the commit that the
revision pins. With ``RLLM_SOURCE`` the lines below are compared with that clone's.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import importlib_metadata
import pytest
import rllm_changes
import rllm_source
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.whole
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ("tinker>=0.22.2", "tinker-cookbook>=0.4.1")
PINS = {
    "9beb6e0f": (*SHARED, "fireworks-ai[training]==1.2.0a79"),
    "955a0c29": (*SHARED, "fireworks-ai[training]==1.2.1"),
}
"""What a revision requires of packages that renderers come from, and keeps with its patch."""
BEFORE = {"9beb6e0f": "renderers>=0.1.7", "955a0c29": "renderers==0.1.9"}
"""What its patch takes away."""
COOKBOOK = {
    "9beb6e0f": ("fireworks-ai[training]>=1.2.0a70,<2", "tinker-cookbook==0.4.1", "transformers"),  # bba676c6
    "955a0c29": ("fireworks-ai[training]>=1.2.0a87,<2", "tinker-cookbook==0.4.1", "transformers"),  # 6b123250
}
"""What the cookbook's commit requires of them."""


def pip(*arguments):
    """pip's plan, nothing installed."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-build-isolation", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)


@pytest.fixture(scope="module", autouse=True)
def index():
    if pip("--no-deps", "--ignore-installed", "pluggy").returncode:
        pytest.skip("not proved with rLLM's requirements: no package index can be reached")


def cookbook(folder, revision):
    """The stand-in of the cookbook's project."""
    lines = [f'name = "fireworks-training-cookbook"\nversion = "0.1.0"\ndependencies = {json.dumps(COOKBOOK[revision])}']
    (folder / "pyproject.toml").write_text("\n".join(["[project]", *lines, "[tool.setuptools]", "packages = []"]))
    return folder


def required(revision):
    """Requirements that the patch adds to rLLM's projects."""
    patch = (rllm_changes.PATCHES / f"{revision}.patch").read_text(encoding="utf-8")
    return [Requirement(line) for line in re.findall(r'^\+ +"(rllm-renderer-[^"]+)",$', patch, re.MULTILINE)]


def project(name):
    """The folder of one of our distributions, and its pyproject.toml."""
    folder = next(folder for folder in (ROOT / "plugins" / name, ROOT / "packages" / name) if folder.is_dir())
    return folder, tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def ours(names):
    """The folders of these distributions of ours, of the core, and of whatever of ours they need: no index has them."""
    folders, waiting = {"rllm-renderer-core": ROOT}, list(names)
    while waiting:
        name = waiting.pop()
        if name.startswith("rllm-renderer-") and name not in folders:
            folders[name], about = project(name)
            waiting += [Requirement(line).name for line in about["dependencies"]]
    return [folders[name] for name in sorted(folders)]


@pytest.mark.parametrize("revision", PINS)
def test_every_requirement_of_a_patch_has_both_bounds_and_takes_this_version(revision):
    """Without an upper bound the next incompatible release would be installed into rLLM."""
    for line in required(revision):
        assert sorted(bound.operator for bound in line.specifier) == ["<", ">="], line
        assert line.specifier.contains(importlib_metadata.version(line.name)), line


@pytest.mark.parametrize("revision", PINS)
@pytest.mark.parametrize("python", ["3.10", "3.11", "3.13"])
def test_what_a_patch_requires_can_be_installed_on_every_python_that_rllm_supports(revision, python):
    """rLLM's projects say ``>=3.10``, and its gateway's tests run on 3.10: what needs a newer one has a marker."""
    lines = required(revision)
    assert lines
    for line in lines:
        if line.marker is not None and not line.marker.evaluate({"python_version": python}):
            continue
        supported = project(line.name)[1]["requires-python"]
        assert python in SpecifierSet(supported), f"{line} wants Python {supported}"


@pytest.mark.parametrize("revision", PINS)
def test_a_patched_revision_installs_with_prime_tinker_and_fireworks(revision, tmp_path):
    names = {line.name for line in required(revision)}
    assert names == {f"rllm-renderer-{part}" for part in ("rllm", "prime", "tinker", "fireworks")}
    done = pip(*PINS[revision], cookbook(tmp_path, revision), *ours(names), "--report", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr[-2000:]
    plan = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["install"]
    versions = {each["metadata"]["name"].replace("_", "-"): each["metadata"]["version"] for each in plan}
    assert versions["tinker-cookbook"] == "0.4.1", "the cookbook's pin decides"
    assert "fireworks-ai" in versions


def test_the_pin_that_the_patch_of_955a0c29_takes_away_was_in_the_way(tmp_path):
    """renderers 0.1.9 parses without the prompt's ids."""
    done = pip(BEFORE["955a0c29"], *ours(["rllm-renderer-prime"]))
    assert done.returncode != 0 and "conflict" in done.stderr and "renderers" in done.stderr


def test_these_are_rllms_own_requirements():
    root = rllm_source.source()
    if root is None:
        pytest.skip("not compared with rLLM's own requirements: set RLLM_SOURCE to a clone")
    files = [root / "pyproject.toml", root / "rllm-model-gateway/pyproject.toml"]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    revision = "955a0c29" if rllm_source.unified(root) else "9beb6e0f"
    for line in (*PINS[revision], BEFORE[revision]):
        assert f'"{line}"' in text or f'"{line} ;' in text, line
