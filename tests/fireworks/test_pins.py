"""A pin proves what a cookbook writes: all its commits have one version, or none where it is on the path."""

from __future__ import annotations

import json
import shutil

import pytest
import real_tokenizers
from fireworks_process import STANDIN, run

if reason := real_tokenizers.missing("Qwen/Qwen3-8B"):
    pytest.skip(reason, allow_module_level=True)

CHANGES = {
    "other ids": ('label = "made up"', 'label = "made over"'),
    "the same ids": ("import tinker\n", "import tinker  # soon\n"),
}

PIN = "say(core.resolve(QWEN, tokenizer(), backend='fireworks', renderer='made_up', parity='off').proof().to_dict())"
HOLD = """\
pin = json.loads({pin!r})
def held():
    kept = core.resolve(QWEN, tokenizer(), pin=pin)
    assert kept.resolution == core.Resolution.from_dict(pin)
    import pickle
    assert pickle.loads(pickle.dumps(kept)).resolution == kept.resolution
lines = []
def unrendered():
    lines.extend(core.select_backend(QWEN, pin=pin).differences(core.Resolution.from_dict(pin)))
say([error(held), error(unrendered) or lines])
"""


def variant(folder, change):
    """The stand-in cookbook with one change in its sources."""
    shutil.copytree(STANDIN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "training/renderer/made_up.py"
    text = file.read_text(encoding="utf-8")
    old, new = CHANGES[change]
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def pin():
    return run(PIN, STANDIN)


def test_it_has_digests_of_the_sources_and_of_what_they_write(pin):
    ours = {f"rllm-renderer-{name}" for name in ("fireworks", "tinker", "template")}
    assert set(pin["sources"]) == ours | {"fireworks-training-cookbook", "tinker-cookbook"}
    assert pin["written"] and pin["upstream"]["fireworks-training-cookbook"]


def test_a_cookbook_that_writes_other_ids_is_refused(pin, tmp_path):
    error, lines = run(HOLD.format(pin=json.dumps(pin)), variant(tmp_path / "cookbook", "other ids"))
    assert error is not None and error[0] == "PinMismatchError"
    assert "written: " in error[1] and "sources.fireworks-training-cookbook: " in error[1]
    assert len(lines) == 1 and lines[0].startswith("sources.fireworks-training-cookbook: ")


def test_a_cookbook_that_writes_the_same_is_accepted(pin, tmp_path):
    error, lines = run(HOLD.format(pin=json.dumps(pin)), variant(tmp_path / "cookbook", "the same ids"))
    assert error is None
    # Unrendered it isn't known that they write the same.
    assert len(lines) == 1 and lines[0].startswith("sources.fireworks-training-cookbook: ")


def test_a_pin_without_what_it_writes_is_held_to_the_sources(pin, tmp_path):
    error, early = run(HOLD.format(pin=json.dumps({**pin, "written": ""})), variant(tmp_path / "cookbook", "the same ids"))
    assert early == error and error[0] == "PinMismatchError"
    assert error[1].splitlines()[1].strip().startswith("sources.fireworks-training-cookbook: ")
