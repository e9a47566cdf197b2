"""``rllm-renderer new``: what it writes is tested by tests/core/test_docs_plugins.py; here, what it refuses."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from rllm_renderer_cli.commands.new import plugin_files


def test_it_writes_a_folder_and_says_how_to_go_on(run, tmp_path):
    result = run("new", "my-model", "--into", str(tmp_path))
    assert result.exit_code == 0, result.stderr
    folder = tmp_path / "rllm-renderer-my-model"
    written = {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}
    assert written == plugin_files("my-model", "my-model/my-model-1")
    assert "class MyModelBackend" in written["rllm_renderer_my_model/__init__.py"]
    assert not [text for text in written.values() if re.search("@[A-Z]+@", text)]
    assert result.stdout.endswith("rllm-renderer-my-model && pip install -e '.[testing]' && pytest\n")
    again = run("new", "my-model", "--into", str(tmp_path))
    assert again.exit_code == 2 and "is there already" in again.stderr and again.stdout == ""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Acme", "can't name a backend"),
        ("a_b", "can't name a backend"),
        ("class", "can't name a backend"),
        ("../x", "can't name a backend"),
        ("prime", "there is a backend 'prime' already"),
        ("chat-template", "there is a backend 'chat-template' already"),
    ],
)
def test_names_that_it_refuses(run, tmp_path, name, why):
    result = run("new", name, "--into", str(tmp_path))
    assert result.exit_code == 2 and why in result.stderr and not list(tmp_path.iterdir())


def test_a_folder_that_cant_be_written(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("new", "acme", "--into", str(tmp_path / "file"))
    assert result.exit_code == 2 and "can't write" in result.stderr


def test_a_draft_that_differs_from_the_chat_template_fails_its_own_tests_for_that_reason(tmp_path):
    """White space at the edges of a text is trimmed, which the template doesn't: some of the probes show it."""
    plugin, site = tmp_path / "plugin", tmp_path / "site"
    for name, text in plugin_files("acme", "acme/anvil-7b").items():
        file = plugin / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace('self._text(message["content"])', 'self._text(message["content"].strip())'))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    install += ["--no-build-isolation", "--no-index", "--target", str(site), str(plugin)]
    subprocess.run(install, check=True, capture_output=True)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "probe or reference or the_ids", "tests"]
    done = subprocess.run(tests, cwd=plugin, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr
    failed = {line.split("::", 1)[1].split(" - ")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert "test_every_probe_equals_the_chat_template" in failed
    assert "ParityError: acme/anvil-7b: acme:acme differs from the tokenizer's chat template on " in done.stdout
    assert "test_the_ids" not in failed, "it fails for another reason too"
