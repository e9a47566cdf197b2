"""Writes docs/models.md from what the table scripts print here: ``python scripts/write_models.py``.

Each table is measured on the installed packages, as many at once as there are cores. A script that can't run here (without the
Fireworks cookbook, say) leaves its section as it is, and the summary too, and says so. ``--only NAME`` measures one table
again, and leaves the summary.
"""

# ruff: noqa: T201

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

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
    names = [name for name in TABLES if only in (None, name)]
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(pathlib.Path(folder) / f"{name}.json") for name in names}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            printed = pool.map(lambda name: output(name, ["--rows", files[name]]), names)
            for name, text in zip(names, printed, strict=True):
                page = written(page, name, text)
        rows = [file for name, file in files.items() if name not in WITHOUT_ROWS]
        if only is None and all(map(os.path.exists, rows)):
            page = written(page, "models_summary", output("models_summary", rows))
    PAGE.write_text(page, encoding="utf-8")


def output(name: str, arguments: list[str]) -> str:
    """What the script of that name prints; nothing where it can't run here."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "scripts" / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    # What libraries print by themselves stands before what the script prints.
    found = re.search(r"^(Measured with|\|).*", done.stdout, re.DOTALL | re.MULTILINE)
    text = found[0].strip() if found and done.returncode == 0 else ""
    if not text:
        print(f"{name}: left as it is: {(done.stderr or done.stdout).strip().splitlines()[-1:]}", flush=True)
    return text


def written(page: str, name: str, text: str) -> str:
    """The page with this text in the script's section."""
    if not text:
        return page
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    print(f"{name}: written" if marked.search(page) else f"{name}: the page has no section for it", flush=True)
    return marked.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page, count=1)


if __name__ == "__main__":
    main()
