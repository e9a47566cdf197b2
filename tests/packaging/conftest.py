"""Every distribution, built once a run."""

from __future__ import annotations

import shutil
import sys

import pytest
from building import FOLDERS, ROOT, run

NOT_OF_A_CLONE = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", "tests", "docs", "benchmarks", ".*")


@pytest.fixture(scope="session")
def clone(tmp_path_factory):
    """The sources, as a clone has them: nothing that was built."""
    return shutil.copytree(ROOT, tmp_path_factory.mktemp("clone") / "rllm-renderer", ignore=NOT_OF_A_CLONE)


@pytest.fixture(scope="session")
def wheels(clone, tmp_path_factory):
    """The folder of sdists and wheels, one a distribution; each wheel is built from its sdist, so that neither lacks a file."""
    target = tmp_path_factory.mktemp("wheels")
    for folder in FOLDERS.values():
        source = clone / folder.relative_to(ROOT)
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, source)
    return target
