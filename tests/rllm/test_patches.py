"""The patches: they apply to a fresh copy, pass rLLM's own ruff, leave nothing that imports what they delete, are explained."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
import rllm_changes
import rllm_source

DOCS = (pathlib.Path(__file__).resolve().parents[2] / "docs/rllm.md").read_text(encoding="utf-8")


def files(patch):
    return re.findall(r"^diff --git a/(\S+)", patch.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("patch", rllm_changes.PATCH.values(), ids=lambda patch: patch.stem)
def test_every_file_is_explained(patch):
    assert patch.name in DOCS
    for name in files(patch):
        assert pathlib.Path(name).name in DOCS, name


def test_changed_files_pass_rllms_own_ruff(changed):
    patch = rllm_changes.PATCH[rllm_source.unified(changed)]
    written = [name for name in files(patch) if name.endswith(".py") and (changed / name).exists()]
    for check in (("check",), ("format", "--check")):
        result = subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--no-cache", *written], cwd=changed, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-500:]


def test_nothing_imports_what_was_deleted(changed):
    patch = rllm_changes.PATCH[rllm_source.unified(changed)]
    gone = [name for name in files(patch) if not (changed / name).exists()]
    modules = {name[:-3].replace("/", ".") for name in gone if name.startswith("rllm/")}
    modules |= {"_convert_openai_messages", "_prepare_messages_with_tools", "convert_messages_to_tokens_and_masks"}
    for file in changed.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not any(re.search(rf"\b{re.escape(name)}\b", text) for name in modules), file
