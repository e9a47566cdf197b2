"""``python scripts/write_models.py``: docs/models.md and docs/models-in-detail.md, from what the table scripts print.

Each table is measured on the installed packages, as many at once as there are cores; the summary comes last, as it reads the
others. A script that can't run here (without the Fireworks cookbook, say) leaves its section as it is, and says so.
``--only NAME`` measures one table again.
"""

# ruff: noqa: T201

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[1]
DETAILS = ROOT / "docs" / "models-in-detail.md"
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
SUMMARY, SUMMARY_PAGE = "models_summary", ROOT / "docs" / "models.md"


def main() -> None:
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    names = [name for name in TABLES if only in (None, name)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, text in zip(names, pool.map(output, names), strict=True):
            write(DETAILS, name, text)
    if only in (None, SUMMARY):
        write(SUMMARY_PAGE, SUMMARY, output(SUMMARY))


def output(name: str) -> str:
    """What the script of that name prints; nothing where it can't run here."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "scripts" / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    # What libraries print by themselves stands before what the script prints.
    found = re.search(r"^Measured on .*", done.stdout, re.DOTALL | re.MULTILINE)
    text = found[0].strip() if found and done.returncode == 0 else ""
    if not text:
        print(f"{name}: left as it is: {(done.stderr or done.stdout).strip().splitlines()[-1:]}", flush=True)
    return text


def write(page: pathlib.Path, name: str, text: str) -> None:
    """Put this text into the script's section of a page."""
    if not text:
        return
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    before = page.read_text(encoding="utf-8")
    print(f"{name}: written" if marked.search(before) else f"{name}: the page has no section for it", flush=True)
    page.write_text(marked.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", before, count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
