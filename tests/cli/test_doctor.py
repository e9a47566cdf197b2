"""``rllm-renderer doctor``: each fault made for real, found, with its fix and exit status 1."""

import json
import sys

import pytest
from plugin_source import plugin
from toy import ToyTokenizer


@pytest.fixture
def doctor(run):
    """Problems and notes, after checking that the exit status, the JSON and the page agree."""

    def doctor():
        result = run("doctor", "--json")
        data = json.loads(result.stdout)
        problems = [each for each in data["findings"] if each["problem"]]
        assert data["ok"] == (not problems) == (result.exit_code == 0)
        page = run("doctor")
        assert page.exit_code == result.exit_code
        assert page.stdout.count("problem: ") == len(problems)
        for each in data["findings"]:
            assert each["what"] in page.stdout and each["fix"] in page.stdout
        return data, problems

    return doctor


@pytest.fixture(autouse=True)
def alone(no_plugins, monkeypatch):
    """The environment of the test run itself isn't what is examined here."""
    from rllm_renderer_cli.doctor import checkup

    from rllm_renderer_core.plugin import discovery

    monkeypatch.setattr(checkup, "find", lambda: discovery.find())
    monkeypatch.setattr(checkup, "_core_metadata", lambda: ())
    monkeypatch.setattr(checkup, "CORE_DISTRIBUTION", "rllm-renderer-core")
    real = checkup._distributions
    before = {name: len(copies) for name, copies in real(set()).items()}
    monkeypatch.setattr(
        checkup,
        "_distributions",
        lambda upstream: {name: copies for name, copies in real(upstream).items() if len(copies) > before.get(name, 0)},
    )


def test_a_sound_environment(doctor, install, toy_source):
    install("wrapped", version="2.5", modules={"wrapped_package.sub": ""}, entry_points={})
    install(
        "rllm-renderer-toy", version="1.2", source=toy_source("wrapped"), requires=["wrapped>=2", "rllm-renderer-core>=0.1"]
    )
    data, problems = doctor()
    assert problems == []
    assert data["upstream"] == {"chat-template": {}, "toy": {"wrapped": "2.5"}}
    (toy,) = (plugin for plugin in data["plugins"] if plugin["name"] == "toy")
    assert toy["state"] == "loaded" and toy["version"] == "1.2"
    assert data["python"] == ".".join(map(str, sys.version_info[:3]))


def test_which_backends_can_have_literal_text(run, install, toy_source):
    own = toy_source().replace("    name = ", '    own_vocabulary = frozenset({"deaf"})\n    name = ', 1)
    assert "own_vocabulary" in own
    install("rllm-renderer-toy", source=own)
    assert "marker_text='literal': chat-template, toy (not deaf); proven when" in " ".join(run("doctor").stdout.split())


def test_broken_incompatible_and_disabled(doctor, install, monkeypatch):
    install("rllm-renderer-bad", source="import module_that_is_gone")
    install("rllm-renderer-old", source="", requires=["rllm-renderer-core>=99"])
    install("rllm-renderer-off", source="raise SystemExit")
    monkeypatch.setenv("RLLM_RENDERER_DISABLED", "off")
    data, problems = doctor()
    whats = [each["what"] for each in problems]
    assert any(what.startswith("broken: ") and "module_that_is_gone" in what for what in whats)
    assert any(what.startswith("incompatible: ") for what in whats)
    assert not any("'off'" in what for what in whats)
    assert all(each["fix"] for each in problems)
    assert data["environment"] == {"RLLM_RENDERER_DISABLED": "off"}


def test_two_distributions_with_one_plugin_name(doctor, install, toy_source):
    install("rllm-renderer-one", source=toy_source(), plugin="same")
    install("rllm-renderer-two", source=toy_source(), plugin="same")
    _, problems = doctor()
    assert len(problems) == 2 and all("rllm-renderer-two" in str(each) for each in problems)
    assert all("uninstall one of them" in each["fix"] for each in problems)


def test_the_same_distribution_twice(doctor, install, toy_source):
    install("rllm-renderer-toy", version="1.0", source=toy_source())
    install("rllm-renderer-toy", version="2.0", source=toy_source())
    _, problems = doctor()
    assert any(
        each["what"].startswith("shadowed: rllm-renderer-toy is on sys.path 2 times: 2.0") and "1.0 in" in each["what"]
        for each in problems
    )


def test_an_editable_install_beside_its_source_tree_is_a_note(doctor, install, toy_source):
    install("rllm-renderer-toy", source=toy_source())
    info = install("rllm-renderer-toy", source=toy_source())
    (info / "direct_url.json").write_text('{"url": "file:///somewhere", "dir_info": {"editable": true}}')
    data, problems = doctor()
    assert problems == []
    assert any("editable install" in each["what"] for each in data["findings"])


def test_metadata_whose_module_is_gone(doctor, install, toy_source):
    info = install("rllm-renderer-toy", source=toy_source())
    for file in info.parent.glob("*.py"):
        file.unlink()
    _, problems = doctor()
    assert any(each["what"].startswith("stale metadata: rllm-renderer-toy") and "is gone" in each["what"] for each in problems)
    assert any("pip uninstall rllm-renderer-toy" in each["fix"] for each in problems)


def test_a_module_that_comes_from_another_folder(doctor, install, toy_source, tmp_path, monkeypatch):
    info = install("rllm-renderer-toy", source=toy_source())
    module = next(info.parent.glob("*.py"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / module.name).write_text(module.read_text())
    monkeypatch.syspath_prepend(str(elsewhere))
    _, problems = doctor()
    sys.modules.pop(module.stem, None)
    assert len(problems) == 1
    assert problems[0]["what"].startswith(f"shadowed: module {module.stem!r}") and str(elsewhere) in problems[0]["what"]


def test_a_plugin_that_needs_what_isnt_there(doctor, install, toy_source):
    install("wrapped", version="1.0", modules={"wrapped_package.sub": ""}, entry_points={})
    requires = ["wrapped>=2", "missing-thing>=3", 'extra-thing; extra == "more"', 'other-os; sys_platform == "nowhere"']
    install("rllm-renderer-toy", source=toy_source("unheard-of"), requires=requires)
    _, problems = doctor()
    assert {(each["what"], each["fix"]) for each in problems} == {
        ("rllm-renderer-toy 1.0 needs wrapped>=2, installed is 1.0", "pip install 'wrapped>=2'"),
        ("rllm-renderer-toy 1.0 needs missing-thing>=3, which isn't installed", "pip install 'missing-thing>=3'"),
        ("plugin 'toy' wraps unheard-of, which isn't installed", "pip install unheard-of"),
    }


def test_what_a_plugin_wraps_is_installed_as_its_backend_says(doctor, install, toy_source):
    answer = "Unavailable('it is not there', 'pip install git+https://example.org/it')"
    asked = f"if query.renderer:\n            return {answer}\n        if"
    source = toy_source("unheard-of")
    install("rllm-renderer-toy", source=source.replace('if query.model == "toy/sick"', f"{asked} query.model == 'toy/sick'"))
    _, problems = doctor()
    assert [each["fix"] for each in problems] == ["pip install git+https://example.org/it"]


def test_a_python_that_doesnt_fit(doctor, install, toy_source):
    info = install("rllm-renderer-toy", source=toy_source())
    with (info / "METADATA").open("a") as file:
        file.write("Requires-Python: >=4\n")
    _, problems = doctor()
    assert len(problems) == 1 and "needs Python >=4" in problems[0]["what"]


def test_an_upstream_that_is_installed_but_broken(doctor, run, install, toy_source):
    """What the plugin wraps lacks a module, which only importing it shows."""
    install("wrapped", modules={"wrapped_package": "import absent_part", "wrapped_package.sub": ""}, entry_points={})
    install("rllm-renderer-toy", source=toy_source("wrapped"))
    _, problems = doctor()
    assert len(problems) == 1
    assert "wrapped 1.0, which plugin 'toy' wraps, is installed but broken" in problems[0]["what"]
    assert problems[0]["fix"] == "pip install absent_part"
    assert run("doctor", "--no-imports").exit_code == 0


def test_variables(doctor, install, toy_source, monkeypatch):
    install("rllm-renderer-toy", source=toy_source())
    monkeypatch.setenv("RLLM_RENDERER_BACKEND", "nonsense")
    monkeypatch.setenv("RLLM_RENDERER_PLUGINS", "toy,nobody")
    monkeypatch.setenv("RLLM_RENDERER_TYPO", "1")
    data, problems = doctor()
    assert [each["what"] for each in problems] == ["RLLM_RENDERER_BACKEND=nonsense names no usable backend"]
    notes = [each["what"] for each in data["findings"] if not each["problem"]]
    assert notes == [
        "RLLM_RENDERER_PLUGINS names 'nobody', which isn't installed",
        "RLLM_RENDERER_TYPO is no variable of the core",
    ]


def test_metadata_of_the_core_that_is_stale_or_absent(monkeypatch, alone):
    from rllm_renderer_cli.doctor import checkup

    monkeypatch.undo()
    monkeypatch.setattr(checkup, "installed_version", lambda name: "0.0.1")
    (stale,) = checkup._core_metadata()
    assert stale.problem and "0.0.1" in stale.what and stale.fix
    monkeypatch.setattr(checkup, "installed_version", lambda name: "")
    (absent,) = checkup._core_metadata()
    assert not absent.problem


def test_what_an_interrupted_uninstall_left_has_no_name():
    from rllm_renderer_cli.doctor import checkup

    class Left:
        @property
        def metadata(self):
            raise FileNotFoundError

    assert checkup._name(Left()) == ""


LISTS = "    def models(self):\n        return ['toy/toy-1', 'toy/toy-2']\n\n    def renderer_names"


def test_two_backends_that_claim_a_model_equally(doctor, install):
    models = ("toy/toy-1", "toy/toy-2")
    one = plugin("one", renderer="r1", models=models).replace("    def renderer_names", LISTS)
    install("rllm-renderer-one", source=one)
    install("rllm-renderer-two", source=plugin("two", renderer="r2", models=models))
    _, problems = doctor()
    (found,) = problems
    assert found["what"].startswith("ambiguous: backends 'one' and 'two' of rllm-renderer-one and rllm-renderer-two claim ")
    assert "'toy/toy-1'" in found["what"] and found["what"].endswith(", and 1 more")
    assert "backend='one' or backend='two'" in found["fix"]


def test_two_backends_with_a_renderer_of_one_name(doctor, install):
    install("rllm-renderer-one", source=plugin("one", renderer="same", models=("a/1",)))
    install("rllm-renderer-two", source=plugin("two", renderer="same", models=("a/2",)))
    install("rllm-renderer-low", source=plugin("low", renderer="same", models=("a/1",), priority=5))
    _, problems = doctor()
    (found,) = problems
    assert "ambiguous: " in found["what"] and "(named)" in found["what"] and "'low'" not in found["what"]


def test_the_traceback_of_what_was_raised(run, install):
    install("rllm-renderer-bad", source="def load():\n    raise ValueError('oops')\n\n\nload()")
    install("rllm-renderer-odd", source=plugin("odd", covers="raise KeyError('why')"))
    quiet, page = run("doctor", "--no-imports"), run("doctor", "--no-imports", "--traceback")
    assert "Traceback" not in quiet.stdout and page.stdout.count("Traceback (most recent call last)") >= 2
    assert "in load" in page.stdout and "ValueError: oops" in page.stdout and "KeyError: 'why'" in page.stdout
    found = json.loads(run("doctor", "--no-imports", "--traceback", "--json").stdout)["findings"]
    assert sum("Traceback" in each["trace"] for each in found) == 2
    assert all("trace" not in each for each in json.loads(run("doctor", "--no-imports", "--json").stdout)["findings"])


def test_a_model_is_tried_where_one_is_named(run, install, toy_source, monkeypatch):
    from rllm_renderer_core.normal_form import tokenizer as vocabulary

    install("rllm-renderer-toy", source=toy_source().replace("return [2]", "return ['<end>']"))
    monkeypatch.setattr(vocabulary, "load_tokenizer", lambda name: ToyTokenizer())
    assert "get_stop_token_ids" not in run("doctor", "--no-imports").stdout
    result = run("doctor", "toy/one", "--no-imports")
    assert result.exit_code == 1 and "returned from get_stop_token_ids what isn't a list of ids" in result.stdout
