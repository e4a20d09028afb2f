"""Checks that every machine gets: Python, the libraries formats need, the cache, the simulator."""

from __future__ import annotations

import os
from collections.abc import Iterator

from openane.cache import Cache
from openane.doctor.check import Check, Status
from openane.doctor.machine import Machine
from openane.version import pip_line

AREA = "openane"
OLDEST = (3, 11)
EXTRAS = (
    ("onnx", "onnx", "reading ONNX models"),
    ("coremltools", "coreml", "a second reader of Core ML models (ours reads them without it)"),
    ("torch", "torch", "torch.export programs"),
    ("jax", "jax", "JAX functions, and StableHLO bytecode"),
    ("tinygrad", "tinygrad", "functions of tinygrad tensors"),
    ("transformers", "pretrained", "families of models from Hugging Face directories"),
    ("pillow", "pretrained", "images from files"),
    ("rich", "cli", "progress bars"),
    ("numba", "fast", "compiled loops of the simulator and the compiler"),
    ("threadpoolctl", "fast", "runs of the simulator on several threads"),
    ("tokenizers", "llm", "language models: ane generate"),
    ("ml_dtypes", "llm", "weights in bfloat16"),
    ("gguf", "gguf", "language models in GGUF files"),
    ("starlette", "serve", "the HTTP server: ane serve"),
    ("uvicorn", "serve", "the HTTP server: ane serve"),
    ("pydantic", "serve", "requests to ane serve"),
    ("safetensors", "train", "checkpoints of ane train, and of language models"),
    ("matplotlib", "train", "the loss curve of ane train"),
    ("distributed", "farm", "many models in parallel: ane farm"),
    ("cryptography", "farm", "workers of ane farm that nobody else may use"),
    ("mpi4py", "mpi", "training on several machines"),
)
"""Distribution, the extra that installs it, what it is for."""


def check_everywhere(machine: Machine) -> Iterator[Check]:
    """Python, numpy, extras, cache, simulator."""
    version = ".".join(map(str, machine.python))
    if machine.python < OLDEST:
        yield Check(AREA, "Python", Status.MISSING, version, "openane needs Python 3.11 or newer")
    else:
        yield Check(AREA, "Python", Status.OK, f"{version}, {machine.architecture}")
    numpy = machine.package("numpy")
    if numpy is None:
        yield Check(AREA, "numpy", Status.MISSING, "not installed", "pip install numpy")
    else:
        yield Check(AREA, "numpy", Status.OK, numpy)
    for package, extra, purpose in EXTRAS:
        found = machine.package(package)
        if found is None:
            yield Check(AREA, package, Status.NOTE, f"not installed: {purpose}", pip_line(extra))
        else:
            yield Check(AREA, package, Status.OK, f"{found}: {purpose}")
    yield _cache(machine)
    yield Check(AREA, "simulator", Status.OK, "runs every program here: --device simulator")


def _cache(machine: Machine) -> Check:
    folder = str(Cache().folder)
    place = folder
    while not machine.exists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    if machine.may(place):
        return Check(AREA, "cache", Status.OK, folder)
    return Check(AREA, "cache", Status.MISSING, f"{folder} cannot be written",
                 "set ANE_CACHE to a folder of yours; compiled models are not kept until then")
