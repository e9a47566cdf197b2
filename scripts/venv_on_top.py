"""Makes a venv that also sees the packages of the one it is run in, behind its own: ``VENV/bin/python venv_on_top.py NEW``.

What is then installed into the new venv is found first, so that a test runs on another version of one package.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import sysconfig


def main() -> None:
    new = pathlib.Path(sys.argv[1])
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(new)], check=True)
    python = str(new / "bin" / "python")
    ask = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = pathlib.Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    # Before Python 3.12 a venv gets setuptools of its own, older than torch below wants it.
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools"], check=True, stderr=subprocess.DEVNULL)
    below = pathlib.Path(sysconfig.get_path("purelib")).resolve()
    own.joinpath("below.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n", encoding="utf-8")


if __name__ == "__main__":
    main()
