"""Writes docs/models.md from what the table scripts print here: ``python scripts/write_models.py``.

Each table is measured on the installed packages. A script that can't run here (without the Fireworks cookbook, say) leaves its
section as it is, and the summary too, and says so. ``--only NAME`` measures one table again, and leaves the summary.
"""

# ruff: noqa: T201

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "models.md"
TABLES = (
    "models_table",
    "models_table_tinker",
    "models_table_fireworks",
    "models_table_tml",
    "models_table_parity",
    "models_table_prefer",
    "models_table_parse",
    "models_table_turns",
    "models_table_supervised",
)
WITHOUT_ROWS = ("models_table_parity", "models_table_prefer", "models_table_parse")


def main() -> None:
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    page, files = PAGE.read_text(encoding="utf-8"), []
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in TABLES if only in (None, name)]:
            file = pathlib.Path(folder) / f"{name}.json"
            page = written(page, name, ["--rows", str(file)])
            files += [file] if name not in WITHOUT_ROWS else []
        if only is None and all(file.exists() for file in files):
            page = written(page, "models_summary", [str(file) for file in files])
    PAGE.write_text(page, encoding="utf-8")


def written(page: str, name: str, arguments: list[str]) -> str:
    """The page with what the script of that name prints in its section."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "scripts" / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout.strip():
        print(f"{name}: left as it is: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        return page
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    print(f"{name}: written" if marked.search(page) else f"{name}: the page has no section for it")
    return marked.sub(lambda found: f"{found[1]}\n{done.stdout.strip()}\n\n{found[2]}", page, count=1)


if __name__ == "__main__":
    main()
