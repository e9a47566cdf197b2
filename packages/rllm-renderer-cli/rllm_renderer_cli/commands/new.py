"""``rllm-renderer new NAME``: the folder of a plugin that installs and passes its tests as it is."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

import click

from rllm_renderer_core.plugin.distributions import KNOWN_PLUGINS
from rllm_renderer_core.version import __version__

from ..output import echo
from ..wording import BadInput

SOURCES = Path(__file__).parent / "new_plugin"
FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "@PACKAGE@/__init__.py": "backend.py.txt",
    "@PACKAGE@/renderer.py": "renderer.py.txt",
    "@PACKAGE@/py.typed": None,
    "tests/chat_template.jinja": "chat_template.jinja.txt",
    "tests/conftest.py": "conftest.py.txt",
    "tests/test_renderer.py": "test_renderer.py.txt",
}
"""Each file of the folder, and what it is made from."""


@click.command("new", short_help="Begin a plugin: a folder that installs and passes its tests.")
@click.argument("name")
@click.option("--model", metavar="NAME", help="The model that it covers; NAME/NAME-1 if left out.")
@click.option("--into", metavar="FOLDER", default=".", help="Where the folder is put; here if left out.")
def command(name: str, model: str | None, into: str) -> None:
    """Write the folder rllm-renderer-NAME: a distribution with a backend, a renderer, and tests against a chat template.

    It installs and passes its tests as it is. Its format is made up: put the model's chat template in its place, and the
    tests say where the renderer differs. NAME is the backend's, small letters, digits and hyphens.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise BadInput(f"{name!r} can't name a backend: small letters, digits and single hyphens, a letter first")
    if name in KNOWN_PLUGINS:
        raise BadInput(f"there is a backend {name!r} already: choose another name")
    folder = Path(into) / f"rllm-renderer-{name}"
    if folder.exists():
        raise BadInput(f"{folder} is there already: choose another name, or --into another folder")
    try:
        for path, text in plugin_files(name, model or f"{name}/{name}-1").items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            echo(str(file))
    except OSError as error:
        raise BadInput(f"can't write {error.filename or folder}: {error.strerror or error}") from error
    echo(f"\ncd {folder} && pip install -e '.[testing]' && pytest")


def plugin_files(name: str, model: str) -> dict[str, str]:
    """The files of a new plugin, by their paths in its folder."""
    version = __version__.split(".")
    values = {
        "NAME": name,
        "PACKAGE": f"rllm_renderer_{name.replace('-', '_')}",
        "CLASS": "".join(part.capitalize() for part in name.split("-")),
        "MODEL": model,
        "CORE": ".".join(version[:2]),
        "NEXT": str(int(version[0]) + 1),
    }

    def filled(text: str) -> str:
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        return text

    return {
        filled(path): "" if source is None else filled((SOURCES / source).read_text(encoding="utf-8"))
        for path, source in FILES.items()
    }
