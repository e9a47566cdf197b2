"""The wheels as a user gets them: what is in them, and what installing and uninstalling one changes, in a fresh venv.

Wheels are built from copies of the source folders with the setuptools of this environment. The venv needs a package index
for the dependencies of others; where there is none, its tests are skipped.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from contextlib import contextmanager
from email.parser import Parser

import pytest

from rllm_renderer_core.plugin.distributions import OWN, REPOSITORY, install_command

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = {"rllm-renderer-core": ROOT} | {
    file.parent.name: file.parent for file in sorted(ROOT.glob("plugins/*/pyproject.toml"))
}
PLUGINS = [name for name in FOLDERS if name != "rllm-renderer-core"]
SKIP = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", "plugins", "tests", "docs", "benchmarks", ".*")
MODEL = "Qwen/Qwen3-8B"


def run(*command, check=True, **environment):
    """A command in a clean environment: nothing of this source tree on its path."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "RLLM_RENDERER_"))}
    env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "HF_HUB_OFFLINE": "1", **environment}
    done = subprocess.run([*map(str, command)], cwd="/", env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 or not check, f"{command}: {done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """The folder of sdists and wheels, one a distribution; each wheel is built from its sdist, so that neither lacks a file."""
    for module in ("setuptools", "build"):
        pytest.importorskip(module, reason=f"not proved: {module}, which builds the wheels, isn't installed")
    base = tmp_path_factory.mktemp("wheels")
    for name, folder in FOLDERS.items():
        shutil.copytree(folder, base / "source" / name, ignore=SKIP)
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", base / "wheels", base / "source" / name)
    return base / "wheels"


def wheel_of(wheels, name):
    (found,) = wheels.glob(f"{name.replace('-', '_')}-*.whl")
    return found


def metadata_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (file,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(file).decode())


# What is in them


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_its_package_and_nothing_else(wheels, name):
    package = name.replace("-", "_")
    files = zipfile.ZipFile(wheel_of(wheels, name)).namelist()
    assert f"{package}/py.typed" in files
    assert {file.split("/")[0].split("-")[0] for file in files} == {package}
    assert not [file for file in files if re.search(r"(^|/)(tests?|__pycache__)/|\.pyc$", file)]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_every_module_of_the_source(wheels, name):
    package = name.replace("-", "_")
    source = {file.relative_to(FOLDERS[name]).as_posix() for file in (FOLDERS[name] / package).rglob("*.py")}
    assert source <= set(zipfile.ZipFile(wheel_of(wheels, name)).namelist())


@pytest.mark.parametrize("name", FOLDERS)
def test_metadata_is_complete(wheels, name):
    about = metadata_of(wheel_of(wheels, name))
    assert about["Name"] == name and about["License-Expression"] == "Apache-2.0" and about["Summary"]
    assert len(about.get_payload()) > 200, "the README isn't the description"


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_the_license_and_the_addresses_of_the_project(wheels, name):
    wheel = wheel_of(wheels, name)
    with zipfile.ZipFile(wheel) as archive:
        (file,) = (each for each in archive.namelist() if each.endswith(".dist-info/licenses/LICENSE"))
        assert archive.read(file) == (ROOT / "LICENSE").read_bytes()
    addresses = dict(each.split(", ") for each in metadata_of(wheel).get_all("Project-URL", []))
    assert addresses.keys() >= {"Homepage", "Repository", "Documentation", "Changelog", "Issues"}
    assert addresses["Repository"] == REPOSITORY and all(each.startswith(REPOSITORY) for each in addresses.values())


@pytest.mark.parametrize("name", FOLDERS)
def test_links_of_a_description_work_on_an_index(wheels, name):
    """An index shows the README without the repository around it: links are absolute, and their files are there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", metadata_of(wheel_of(wheels, name)).get_payload()):
        assert target.startswith(("https://", "#")), f"{name}: a relative link: {target}"
        if inside := re.match(rf"{re.escape(REPOSITORY)}/(?:blob|tree)/main/([^#]*)", target):
            assert (ROOT / inside[1]).exists(), f"{name}: {target}"


def test_twine_accepts_all_sdists_and_wheels(wheels):
    pytest.importorskip("twine", reason="not proved: twine isn't installed")
    files = sorted(wheels.glob("*.whl")) + sorted(wheels.glob("*.tar.gz"))
    assert len(files) == 2 * len(FOLDERS)
    done = run(sys.executable, "-m", "twine", "check", "--strict", *files)
    assert done.stdout.count("PASSED") == len(files), done.stdout


def test_check_wheel_contents_accepts_all_wheels(wheels):
    pytest.importorskip("check_wheel_contents", reason="not proved: check-wheel-contents isn't installed")
    done = run(sys.executable, "-m", "check_wheel_contents", *wheels.glob("*.whl"))
    assert done.stdout.count(": OK") == len(FOLDERS), done.stdout


def test_requirements_of_all_distributions_are_met_here_together():
    """tinker and fireworks bring torch, too much for a fresh venv: what pip says of the environment of the tests counts."""
    done = run(sys.executable, "-m", "pip", "check", check=False)
    assert done.stdout.strip() and not [line for line in done.stdout.splitlines() if "rllm-renderer" in line], done.stdout


def test_an_install_command_names_a_folder_of_the_repository_for_every_distribution():
    assert sorted(FOLDERS) == sorted(OWN)
    for name in FOLDERS:
        (place,) = re.findall(rf"'{name} @ git\+{REPOSITORY}(?:#subdirectory=([^']*))?'", install_command(name))
        assert (ROOT / place / "pyproject.toml").read_text(encoding="utf-8").count(f'name = "{name}"') == 1


def test_the_requirements_of_the_cookbook_are_in_the_wheel_and_a_command_prints_their_place(wheels, tmp_path):
    with zipfile.ZipFile(wheel_of(wheels, "rllm-renderer-fireworks")) as archive:
        archive.extractall(tmp_path)
    code = f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); runpy.run_module('rllm_renderer_fireworks')"
    place = pathlib.Path(run(sys.executable, "-c", code).stdout.strip())
    assert place.is_relative_to(tmp_path) and "git+https://github.com/fw-ai/cookbook@" in place.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_has_its_entry_point_and_requires_the_core_within_a_major_version(wheels, name):
    with zipfile.ZipFile(wheel_of(wheels, name)) as archive:
        (file,) = (each for each in archive.namelist() if each.endswith("/entry_points.txt"))
        assert "[rllm_renderer]" in archive.read(file).decode()
    requires = metadata_of(wheel_of(wheels, name)).get_all("Requires-Dist", [])
    (core,) = (each for each in requires if each.startswith("rllm-renderer-core"))
    assert "<1" in core and ">=0.1" in core


def test_the_core_requires_four_packages(wheels):
    requires = metadata_of(wheel_of(wheels, "rllm-renderer-core")).get_all("Requires-Dist", [])
    needed = {re.split(r"[<>=; ]", each)[0] for each in requires if "extra ==" not in each}
    assert needed == {"pluggy", "importlib-metadata", "packaging", "jsonschema"}


def test_no_requirement_is_a_url(wheels):
    for name in FOLDERS:
        assert not [each for each in metadata_of(wheel_of(wheels, name)).get_all("Requires-Dist", []) if "@" in each]


@pytest.mark.skipif("rllm-renderer-minimax-m3" not in FOLDERS, reason="the plugin isn't there")
def test_the_hand_written_plugin_is_small_and_needs_the_core_alone(wheels):
    wheel = wheel_of(wheels, "rllm-renderer-minimax-m3")
    assert wheel.stat().st_size < 60_000
    requires = metadata_of(wheel).get_all("Requires-Dist", [])
    assert [each for each in requires if "extra ==" not in each and not each.startswith("rllm-renderer-core")] == []


# What installing them changes


class Venv:
    def __init__(self, folder, wheels):
        venv.create(folder, with_pip=True)
        self.bin, self.wheels = folder / ("Scripts" if os.name == "nt" else "bin"), wheels

    def pip(self, *arguments, check=True):
        return run(self.bin / "python", "-m", "pip", *arguments, "--quiet", check=check)

    def install(self, requirement):
        self.pip("install", "--find-links", self.wheels, requirement)

    def packages(self):
        listed = run(self.bin / "python", "-m", "pip", "list", "--format=json").stdout
        return {each["name"].lower().replace("_", "-") for each in json.loads(listed)}

    def explain(self, model):
        """The winner, and the whole table."""
        text = run(self.bin / "rllm-renderer", "explain", model).stdout
        winner = json.loads(run(self.bin / "rllm-renderer", "explain", model, "--json").stdout)["winner"]
        return winner, text

    @contextmanager
    def standing_in(self, versions):
        """Packages that have metadata and can't be imported, for those that are too large to be installed here."""
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = pathlib.Path(run(self.bin / "python", "-c", code).stdout.strip())
        folders = []
        for name, version in versions.items():
            package = name.replace("-", "_")
            for folder, file, content in (
                (package, "__init__.py", f"raise ImportError('{name} was imported')\n"),
                (f"{package}-{version}.dist-info", "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
            ):
                folders.append(site / folder)
                folders[-1].mkdir()
                (folders[-1] / file).write_text(content)
        try:
            yield
        finally:
            for folder in folders:
                shutil.rmtree(folder)


@pytest.fixture(scope="module")
def fresh(wheels, tmp_path_factory):
    """A venv with the core alone."""
    made = Venv(tmp_path_factory.mktemp("venv") / "v", wheels)
    probe = made.pip("download", "--no-deps", "--dest", wheels.parent / "probe", "pluggy", check=False)
    if probe.returncode:
        pytest.skip(f"not proved: no package index can be reached ({probe.stderr.strip().splitlines()[-1]})")
    made.install("rllm-renderer-core")
    return made


@pytest.mark.whole
class TestInFreshVenv:
    """In this order: each test leaves the venv as the next one finds it."""

    def test_the_core_brings_its_four_dependencies_and_what_they_need(self, fresh):
        found = fresh.packages() - {"pip", "setuptools", "wheel"}
        needed = {"rllm-renderer-core", "pluggy", "importlib-metadata", "packaging", "jsonschema"}
        of_jsonschema = {"attrs", "jsonschema-specifications", "referencing", "rpds-py", "typing-extensions"}
        of_importlib_metadata = {"zipp", "lazy-importer"}  # the latter from 10.2
        assert needed <= found <= needed | of_jsonschema | of_importlib_metadata

    def test_the_core_alone_resolves_to_the_chat_template(self, fresh):
        code = f"import rllm_renderer_core as r; print(r.select_backend({MODEL!r}))"
        assert "chat-template" in run(fresh.bin / "python", "-c", code).stdout

    def test_the_command_without_its_extra_says_how_to_install_it(self, fresh):
        done = run(fresh.bin / "rllm-renderer", "plugins", check=False)
        assert done.returncode != 0
        (line,) = (done.stdout + done.stderr).strip().splitlines()
        assert "pip install 'rllm-renderer-core[cli] @ git+https://github.com/rllm-org/rllm-renderer'" in line

    def test_with_the_command_the_core_alone_hints_at_prime(self, fresh):
        fresh.install("rllm-renderer-core[cli]")
        winner, text = fresh.explain(MODEL)
        assert winner == "chat-template"
        assert "not installed" in text and "pip install 'rllm-renderer-prime @ git+" in text

    def test_the_hand_written_plugin_pulls_nothing_and_serves_its_model(self, fresh):
        if "rllm-renderer-minimax-m3" not in FOLDERS:
            pytest.skip("the plugin isn't there")
        before = fresh.packages()
        fresh.install("rllm-renderer-minimax-m3")
        assert fresh.packages() - before == {"rllm-renderer-minimax-m3"}
        assert fresh.explain("MiniMaxAI/MiniMax-M3")[0] == "minimax-m3"
        assert fresh.explain(MODEL)[0] == "chat-template"

    def test_installing_prime_makes_it_the_winner_and_uninstalling_undoes_it(self, fresh):
        if "rllm-renderer-prime" not in FOLDERS:
            pytest.skip("the plugin isn't there")
        fresh.install("rllm-renderer-prime")
        assert not fresh.packages() & {"torch", "transformers"}
        winner, text = fresh.explain(MODEL)
        assert winner == "prime", text
        fresh.pip("uninstall", "-y", "rllm-renderer-prime")
        winner, text = fresh.explain(MODEL)
        assert winner == "chat-template"
        assert "not installed" in text and "pip install 'rllm-renderer-prime @ git+" in text

    def test_prime_without_its_upstream_is_said_to_be_broken_and_not_missing(self, fresh):
        if "rllm-renderer-prime" not in FOLDERS:
            pytest.skip("the plugin isn't there")
        fresh.install("rllm-renderer-prime")
        fresh.pip("uninstall", "-y", "renderers")
        winner, text = fresh.explain(MODEL)
        assert winner == "chat-template"
        (line,) = (line for line in text.splitlines() if line.strip().startswith("prime"))
        assert "not installed" not in line.split("renderers")[0] and "renderers" in line

    def test_tml_serves_deepseek_v4_where_its_upstream_is_installed_and_no_more_once_it_is_gone(self, fresh):
        model, name = "deepseek-ai/DeepSeek-V4-Flash", "rllm-renderer-tml"
        winner, text = fresh.explain(model)
        assert winner == "chat-template" and f"pip install '{name} @ git+" in text
        fresh.pip("install", "--no-deps", "--find-links", fresh.wheels, name)
        winner, text = fresh.explain(model)
        assert winner == "chat-template" and "pip install tml-renderers" in text
        with fresh.standing_in({"tml-renderers": "0.2.1", "torch": "2.13.0"}):
            assert fresh.explain(model)[0] == "tml"
            assert fresh.explain(MODEL)[0] == "tml", "prime has no upstream here"
        fresh.pip("uninstall", "-y", name)
        winner, text = fresh.explain(model)
        assert winner == "chat-template" and f"pip install '{name} @ git+" in text

    def test_what_was_installed_fits_together(self, fresh):
        for name in ("rllm-renderer-parser", "rllm-renderer-prime"):
            fresh.install(name)
        assert "No broken requirements" in run(fresh.bin / "python", "-m", "pip", "check").stdout

    def test_plugins_lists_what_is_installed(self, fresh):
        listed = json.loads(run(fresh.bin / "rllm-renderer", "plugins", "--json").stdout)
        text = json.dumps(listed)
        assert "rllm-renderer-minimax-m3" in text and "rllm-renderer-tinker" in text
