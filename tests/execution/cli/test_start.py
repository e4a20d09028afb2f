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
    return set(said(SAY, *arguments).splitlines()[-1].split())


def said(code: str, *arguments: str) -> str:
    """What code in a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


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


def test_of_the_onnx_package_messages_alone_are_loaded_for_an_onnx_model(tmp_path: Path) -> None:
    assert not modules("compile", str(MODEL), "-o", str(tmp_path / "digits.hwx")) & {"onnx", "ml_dtypes"}


@pytest.mark.parametrize("runtime", ["upb", "python"])
def test_the_onnx_package_works_beside_its_messages(monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    monkeypatch.setenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", runtime)
    code = """if True:
    import sys
    from openane.importers.onnx import load_onnx
    first = load_onnx(sys.argv[1])
    assert "onnx" not in sys.modules
    import onnx, onnx.checker, onnx.shape_inference
    model = onnx.load(sys.argv[1])
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model))
    second, third = load_onnx(model), load_onnx(sys.argv[1])
    print(len(first.nodes), len(second.nodes), len(third.nodes), onnx.onnx_ml_pb2.ModelProto is onnx.ModelProto)"""
    counts = said(code, str(MODEL)).split()
    assert len(set(counts[:3])) == 1
    assert counts[3] == "True"
