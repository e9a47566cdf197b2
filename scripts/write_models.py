"""Writes docs/models.md from what the table scripts print here: ``python scripts/write_models.py``.

Each table is measured on the installed packages. A script that can't run here (without the Fireworks cookbook, say) leaves its
section as it is, and says so.
"""

# ruff: noqa: T201

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "models.md"
SECTIONS = ("models_table", "models_table_tinker", "models_table_fireworks", "models_table_parity")


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in SECTIONS:
        command = [sys.executable, "-W", "ignore", str(ROOT / "scripts" / f"{name}.py")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0 or not done.stdout.strip():
            print(f"{name}: left as it is: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
            continue
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = marked.sub(lambda found, text=done.stdout: f"{found[1]}\n{text.strip()}\n\n{found[2]}", page, count=1)
        print(f"{name}: written")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
