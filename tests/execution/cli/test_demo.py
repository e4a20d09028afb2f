"""`make demo` runs through: what it shows is there, and the program classifies as well as the float model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import openane

ROOT = Path(__file__).parents[3]


def test_the_demo_runs(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "digits" / "demo.py")], capture_output=True,
                          text=True, timeout=120, check=False, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(Path(openane.__file__).parents[1])})
    assert done.returncode == 0, done.stderr
    for words in ("10 tasks, 78.0 KiB of constants", "read back: the same program", "one image moves", "360 of 360"):
        assert words in done.stdout
    assert (tmp_path / "build" / "digits.hwx").is_file()
