"""``rllm-renderer plugins``."""

import json

import pytest

NOISY = "raise SystemExit('imported')"


def states(run, *arguments):
    return {each["name"]: each for each in json.loads(run("plugins", "--json", *arguments).stdout)}


@pytest.fixture
def four(install, no_plugins, toy_source, monkeypatch):
    install("rllm-renderer-good", source=toy_source())
    install("rllm-renderer-bad", source="import module_that_is_gone")
    install("rllm-renderer-off", source=NOISY)
    install("rllm-renderer-old", source=NOISY, requires=["rllm-renderer-core>=99"])
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "off")


def test_states_by_metadata_alone(run, four):
    found = states(run)
    assert {name: each["state"] for name, each in found.items()} == {
        "good": "found",
        "bad": "found",
        "off": "disabled",
        "old": "incompatible",
        "chat-template": "found",
    }
    assert found["good"]["backends"] == [] and found["good"]["distribution"] == "rllm-renderer-good"


def test_check_imports_and_says_what_is_broken(run, four):
    found = states(run, "--check")
    assert found["good"]["state"] == "loaded" and found["good"]["backends"] == ["toy"]
    assert found["bad"]["state"] == "broken" and "module_that_is_gone" in found["bad"]["error"]
    assert run("plugins", "--check").exit_code == 1
    assert run("plugins").exit_code == 0


def test_the_table_has_one_line_a_plugin(run, four):
    lines = run("plugins", "--check").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["bad", "broken"],
        ["chat-template", "loaded"],
        ["good", "loaded"],
        ["off", "disabled"],
        ["old", "incompatible"],
    ]
    assert "module_that_is_gone" in lines[1] and "fix: " in lines[1]


def test_what_could_be_installed_is_listed_with_its_fix(run, no_plugins, monkeypatch):
    from rllm_renderer_core.plugin import discovery

    monkeypatch.setitem(discovery.KNOWN_PLUGINS, "faraway", "rllm-renderer-faraway")
    each = states(run)["faraway"]
    assert each["state"] == "not installed" and each["error"] == "pip install rllm-renderer-faraway"


def test_no_plugin_is_imported_without_check(python, tmp_path):
    """In a process of its own, with all of this project's plugins and one that would end the process."""
    from rllm_renderer_core.testing import fake_distribution

    with fake_distribution(
        tmp_path, "rllm-renderer-noisy", entry_points={"noisy": "noisy_plugin"}, modules={"noisy_plugin": NOISY}
    ):
        done = python(
            "import json, sys\n"
            "from click.testing import CliRunner\n"
            "from rllm_renderer_cli.app import cli\n"
            "result = CliRunner().invoke(cli, ['plugins', '--json'])\n"
            "assert result.exit_code == 0, result\n"
            "assert 'noisy' in {each['name'] for each in json.loads(result.stdout)}\n"
            "heavy = ('noisy_plugin', 'torch', 'transformers', 'renderers', 'tinker_cookbook')\n"
            "own = ('rllm_renderer_core', 'rllm_renderer_cli')\n"
            "plugins = [m for m in sys.modules if m.startswith('rllm_renderer_') and not m.startswith(own)]\n"
            "print(*plugins, *[m for m in heavy if m in sys.modules])",
            tmp_path,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
