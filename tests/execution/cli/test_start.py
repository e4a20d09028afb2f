"""Commands import what they need and no more: who looks at a program waits for no compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from openane.cli import main

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "examples" / "digits" / "digits.onnx"
SAY = "import sys; from openane.cli import main; main(sys.argv[1:]); print('modules', *sys.modules)"
NEVER = {"openane.passes", "openane.importers", "openane.compiler.pipeline", "openane.checking", "openane.ops.conv",
         "openane.chips.emit.program", "onnx"}


def modules(*arguments: str) -> set[str]:
    """The modules a command has loaded at its end."""
    done = subprocess.run([sys.executable, "-c", SAY, *arguments], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("verb", ["info", "verify", "run"])
@pytest.mark.parametrize("suffix", ["hwx", "ane"])
def test_nothing_of_the_compiler_is_loaded_for_a_compiled_model(tmp_path: Path, verb: str, suffix: str) -> None:
    path = tmp_path / f"digits.{suffix}"
    assert main(["compile", str(MODEL), "-o", str(path)]) == 0
    loaded = modules(verb, str(path))
    assert not loaded & NEVER
    assert verb == "run" or suffix == "ane" or "numpy" not in loaded


def test_nothing_that_imports_models_is_loaded_for_one_the_cache_remembers(tmp_path: Path,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANE_CACHE", str(tmp_path))
    assert main(["run", str(MODEL)]) == 0
    assert not modules("run", str(MODEL)) & NEVER
