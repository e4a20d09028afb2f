"""Without the folders of the generations from H14 on, everything else imports and works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
WORK = """
import sys
from importlib import import_module
from pkgutil import walk_packages
import numpy as np
import openane as ane
from openane.chips import generations
from openane.cli import main

NEED_OTHERS = ("openane.torch", "openane.jax", "openane.tinygrad")
for module in walk_packages(ane.__path__, "openane."):
    if not module.name.endswith("__main__") and not module.name.startswith(NEED_OTHERS):
        import_module(module.name)
assert generations() == ("h11", "h12", "h13"), generations()
model = ane.compile(ane.load_graph(sys.argv[1]))
ane.run(model, {port.name: np.zeros(port.shape, np.float16) for port in model.inputs})
model.save("digits.hwx")
for arguments in ("info digits.hwx", "dis digits.hwx", "chips", "chips h13", "profile digits.hwx"):
    assert main(arguments.split()) == 0, arguments
assert main(["chips", "m2"]) != 0
"""


def test_h13_works_alone(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("h1[4-8]"))
    done = subprocess.run([sys.executable, "-c", WORK, str(ROOT / "examples/digits/digits.onnx")], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(tmp_path / "src")}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
