"""The wheels as an index gets them: what is in each, and what it says of itself."""

from __future__ import annotations

import pathlib
import re
import sys
import zipfile
from email.parser import Parser

import pytest
from building import FOLDERS, META, ROOT, run

from rllm_renderer_core.plugin.distributions import OWN, REPOSITORY, install_command

PLUGINS = [
    name
    for name, folder in FOLDERS.items()
    if "[project.entry-points.rllm_renderer]" in (folder / "pyproject.toml").read_text(encoding="utf-8")
]
built = pytest.mark.whole  # building them takes half a minute


def wheel_of(wheels, name):
    (found,) = wheels.glob(f"{name.replace('-', '_')}-*.whl")
    return found


def metadata_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (file,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(file).decode())


# What is in them


@built
@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_its_package_and_nothing_else(wheels, name):
    package = name.replace("-", "_")
    files = zipfile.ZipFile(wheel_of(wheels, name)).namelist()
    assert (f"{package}/py.typed" in files) is (name != META)
    assert {file.split("/")[0].split("-")[0] for file in files} == {package}
    assert not [file for file in files if re.search(r"(^|/)(tests?|__pycache__)/|\.pyc$", file)]


@built
@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_every_module_of_the_source(wheels, name):
    package = name.replace("-", "_")
    source = {file.relative_to(FOLDERS[name]).as_posix() for file in (FOLDERS[name] / package).rglob("*.py")}
    assert source <= set(zipfile.ZipFile(wheel_of(wheels, name)).namelist())


@built
@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_the_version_that_its_package_says(wheels, name):
    source = FOLDERS[name] / name.replace("-", "_")
    files = [FOLDERS[name] / "pyproject.toml"] if name == META else [source / "version.py", source / "__init__.py"]
    said = "".join(file.read_text(encoding="utf-8") for file in files if file.exists())
    (version,) = re.findall(r'^(?:__version__|version) = "([^"]+)"', said, re.MULTILINE)
    assert metadata_of(wheel_of(wheels, name))["Version"] == version


@pytest.mark.parametrize("name", FOLDERS)
def test_the_changelog_has_a_section_of_each_distribution(name):
    assert f"\n## {name} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FOLDERS)
def test_each_distribution_has_a_readme_and_the_license_of_the_project(name):
    assert len((FOLDERS[name] / "README.md").read_text(encoding="utf-8")) > 200
    assert (FOLDERS[name] / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_files_of_requirements_name_every_distribution_after_what_it_needs():
    order = [line for line in (ROOT / "requirements" / "all.txt").read_text().splitlines() if line.startswith(".")]
    assert sorted((ROOT / line).resolve() for line in order) == sorted(FOLDERS.values())
    names = {folder: name for name, folder in FOLDERS.items()}
    seen = set()
    for line in order:
        text = ((ROOT / line) / "pyproject.toml").read_text(encoding="utf-8")
        needed = set(re.findall(r'"(rllm-renderer[\w-]*)[>=]', text.partition("[project.optional-dependencies]")[0]))
        assert needed <= seen, f"{line} comes before {needed - seen}"
        seen.add(names[(ROOT / line).resolve()])
    base = [line for line in (ROOT / "requirements" / "base.txt").read_text().splitlines() if line.startswith(".")]
    assert base == [line for line in order if line in base]


def test_the_workflows_do_what_a_maintainer_does():
    yaml = pytest.importorskip("yaml")
    ci, release = (yaml.safe_load((ROOT / ".github/workflows" / name).read_text()) for name in ("ci.yml", "release.yml"))
    assert {"run": ".ci/run"} in ci["jobs"]["run"]["steps"]
    assert {"run": "make release"} in release["jobs"]["build"]["steps"]
    assert release["jobs"]["build"]["needs"] == "ci" and release["jobs"]["publish"]["needs"] == "build"
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}, "trusted publishing, no password"


@built
@pytest.mark.parametrize("name", FOLDERS)
def test_metadata_is_complete(wheels, name):
    about = metadata_of(wheel_of(wheels, name))
    assert about["Name"] == name and about["License-Expression"] == "Apache-2.0" and about["Summary"]
    assert len(about.get_payload()) > 200, "the README isn't the description"


@built
@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_the_license_and_the_addresses_of_the_project(wheels, name):
    wheel = wheel_of(wheels, name)
    with zipfile.ZipFile(wheel) as archive:
        (file,) = (each for each in archive.namelist() if each.endswith(".dist-info/licenses/LICENSE"))
        assert archive.read(file) == (ROOT / "LICENSE").read_bytes()
    addresses = dict(each.split(", ") for each in metadata_of(wheel).get_all("Project-URL", []))
    assert addresses.keys() >= {"Homepage", "Repository", "Documentation", "Changelog", "Issues"}
    assert addresses["Repository"] == REPOSITORY and all(each.startswith(REPOSITORY) for each in addresses.values())


@built
@pytest.mark.parametrize("name", FOLDERS)
def test_links_of_a_description_work_on_an_index(wheels, name):
    """An index shows the README without the repository around it: links are absolute, and their files are there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", metadata_of(wheel_of(wheels, name)).get_payload()):
        assert target.startswith(("https://", "#")), f"{name}: a relative link: {target}"
        if inside := re.match(rf"{re.escape(REPOSITORY)}/(?:blob|tree)/main/([^#]*)", target):
            assert (ROOT / inside[1]).exists(), f"{name}: {target}"


@built
def test_twine_accepts_all_sdists_and_wheels(wheels):
    files = sorted(wheels.glob("*.whl")) + sorted(wheels.glob("*.tar.gz"))
    assert len(files) == 2 * len(FOLDERS)
    done = run(sys.executable, "-m", "twine", "check", "--strict", *files)
    assert done.stdout.count("PASSED") == len(files), done.stdout


@built
def test_check_wheel_contents_accepts_all_wheels(wheels):
    with_modules = [wheel_of(wheels, name) for name in FOLDERS if name != META]
    done = run(sys.executable, "-m", "check_wheel_contents", *with_modules)
    assert done.stdout.count(": OK") == len(with_modules), done.stdout


def test_requirements_of_all_distributions_are_met_here_together():
    """tinker and fireworks bring torch, too much for a fresh venv: what pip says of the environment of the tests counts."""
    done = run(sys.executable, "-m", "pip", "check", check=False)
    assert done.stdout.strip() and not [line for line in done.stdout.splitlines() if "rllm-renderer" in line], done.stdout


def test_an_install_command_names_a_folder_of_the_repository_for_every_distribution():
    assert sorted(FOLDERS) == sorted(OWN)
    for name in FOLDERS:
        (place,) = re.findall(rf"'{name} @ git\+{REPOSITORY}(?:#subdirectory=([^']*))?'", install_command(name))
        assert (ROOT / place / "pyproject.toml").read_text(encoding="utf-8").count(f'name = "{name}"') == 1


@built
def test_the_requirements_of_the_cookbook_are_in_the_wheel_and_a_command_prints_their_place(wheels, tmp_path):
    with zipfile.ZipFile(wheel_of(wheels, "rllm-renderer-fireworks")) as archive:
        archive.extractall(tmp_path)
    code = f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); runpy.run_module('rllm_renderer_fireworks')"
    place = pathlib.Path(run(sys.executable, "-c", code).stdout.strip())
    assert place.is_relative_to(tmp_path) and "git+https://github.com/fw-ai/cookbook@" in place.read_text(encoding="utf-8")


@built
@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_has_its_entry_point_and_requires_the_core_within_a_major_version(wheels, name):
    with zipfile.ZipFile(wheel_of(wheels, name)) as archive:
        (file,) = (each for each in archive.namelist() if each.endswith("/entry_points.txt"))
        assert "[rllm_renderer]" in archive.read(file).decode()
    requires = metadata_of(wheel_of(wheels, name)).get_all("Requires-Dist", [])
    (core,) = (each for each in requires if each.startswith("rllm-renderer-core"))
    assert "<1" in core and ">=0.1" in core


@built
def test_the_core_requires_four_packages(wheels):
    requires = metadata_of(wheel_of(wheels, "rllm-renderer-core")).get_all("Requires-Dist", [])
    needed = {re.split(r"[<>=; ]", each)[0] for each in requires if "extra ==" not in each}
    assert needed == {"pluggy", "importlib-metadata", "packaging", "jsonschema"}


@built
def test_no_requirement_is_a_url(wheels):
    for name in FOLDERS:
        assert not [each for each in metadata_of(wheel_of(wheels, name)).get_all("Requires-Dist", []) if "@" in each]


@built
def test_the_hand_written_plugin_is_small_and_needs_the_core_alone(wheels):
    wheel = wheel_of(wheels, "rllm-renderer-minimax-m3")
    assert wheel.stat().st_size < 60_000
    requires = metadata_of(wheel).get_all("Requires-Dist", [])
    assert [each for each in requires if "extra ==" not in each and not each.startswith("rllm-renderer-core")] == []
