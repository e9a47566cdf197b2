"""The docs can't drift: each hook, environment variable, error class and option is named in docs/*.md or README.md."""

from __future__ import annotations

import inspect
import pathlib
import re

import pytest

from rllm_renderer_core import errors
from rllm_renderer_core.plugin import Backend, Match
from rllm_renderer_core.plugin.distributions import REPOSITORY
from rllm_renderer_core.plugin.hooks import HookSpec
from rllm_renderer_core.resolving.request import Options

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md"), *ROOT.glob("packages/*/README.md")]
)
SOURCE = "".join(file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("rllm_renderer_core/**/*.py")))
VARIABLES = sorted(set(re.findall(r"RLLM_RENDERER_[A-Z]+", SOURCE)))
ERRORS = [name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__]
HOOKS = [name for name, value in vars(HookSpec).items() if callable(value) and not name.startswith("_")]
ATTRIBUTES = [name for name in vars(Backend) if not name.startswith("_")] + list(Backend.__annotations__)


@pytest.fixture(scope="module")
def docs():
    return "\n".join(file.read_text(encoding="utf-8") for file in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("README.md")])


def named(docs, name):
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", docs)


def test_there_is_something_to_check():
    assert HOOKS == ["rllm_renderer_backends", "rllm_renderer_detect", "rllm_renderer_judge"]
    assert {"RLLM_RENDERER_DISABLED", "RLLM_RENDERER_PLUGINS", "RLLM_RENDERER_BACKEND", "RLLM_RENDERER_STRICT"} <= set(
        VARIABLES
    )
    assert "NoBackendError" in ERRORS


@pytest.mark.parametrize("name", sorted({*HOOKS, *VARIABLES, *ERRORS, *Options.__annotations__, *ATTRIBUTES}))
def test_it_is_in_the_docs(docs, name):
    assert named(docs, name), f"{name} is in neither docs/*.md nor README.md"


def test_environment_variables_of_the_docs_exist(docs):
    files = [*ROOT.glob("plugins/**/*.py"), *ROOT.glob("packages/**/*.py")]
    others = set(re.findall(r"RLLM_RENDERER_[A-Z]+", "".join(file.read_text(encoding="utf-8") for file in files)))
    assert set(re.findall(r"RLLM_RENDERER_[A-Z]+", docs)) <= {*VARIABLES, *others}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        place, _, heading = target.partition("#")
        inside = re.fullmatch(rf"{re.escape(REPOSITORY)}(?:/(?:blob|tree)/main/(.*))?", place)
        if inside is not None:
            file = ROOT / (inside[1] or "README.md")
        elif place.startswith("https://"):
            continue
        else:
            file = page.parent / place if place else page
        assert file.exists(), f"{page.name}: {target}"
        if heading and heading != "readme":
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in anchors, f"{page.name}: {target}"


def test_match_levels_are_in_the_docs(docs):
    for level in Match:
        assert named(docs, level.name) or named(docs, level.name.lower()), level.name
