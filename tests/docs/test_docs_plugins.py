"""docs/plugins.md shows what ``rllm-renderer new`` writes: its files are written, installed, resolved and tested."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "plugins.md"


def files() -> dict[str, str]:
    """The code blocks that name a file in their first line, by that name."""
    blocks = re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return {name: text.strip("\n") + "\n" for name, text in blocks}


def written() -> dict[str, str]:
    """What the command on the page writes, by paths within the folder."""
    pytest.importorskip("click")
    from rllm_renderer_cli.commands.new import plugin_files

    return plugin_files("acme", "acme/anvil-7b")


def test_the_page_shows_what_the_command_writes():
    shown = {name: text for name, text in files().items() if name != "use_minimax_m3.py"}
    assert shown == {name: text for name, text in written().items() if name in shown} and len(shown) == 4
    assert "rllm-renderer new acme --model acme/anvil-7b" in PAGE.read_text(encoding="utf-8")


def test_its_conformance_tests_pass(tmp_path):
    """The folder is written, its wheel built and installed, and its own tests run against what is installed."""
    for name, text in written().items():
        file = tmp_path / "plugin" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    site = tmp_path / "site"
    offline = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    install = [sys.executable, "-m", "pip", "install", *offline, "--target", str(site), str(tmp_path / "plugin")]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (metadata,) = site.glob("rllm_renderer_acme-0.1.0.dist-info")
    assert "acme = rllm_renderer_acme" in (metadata / "entry_points.txt").read_text()
    assert (site / "rllm_renderer_acme" / "py.typed").exists()

    tests = tmp_path / "plugin" / "tests"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--rootdir", str(tests), str(tests)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])},
        capture_output=True,
        text=True,
        cwd=tests,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    skipped = {line.rpartition(": ")[2] for line in done.stdout.splitlines() if line.startswith("SKIPPED")}
    declared = {f"TestAcme declares {each}=False" for each in ("reasoning", "literal_text", "needs_no_lock")}
    assert " passed" in done.stdout and skipped == declared


def test_the_worked_example_runs():
    exec(compile(files()["use_minimax_m3.py"], "docs/plugins.md", "exec"), {})


def test_files_that_the_page_names_exist():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    table = [name for row in rows for name in re.findall(r"`(\w+\.py)`", row)]
    package = PAGE.parents[1] / "plugins" / "rllm-renderer-minimax-m3" / "rllm_renderer_minimax_m3"
    assert table and all((package / name).exists() for name in table)
