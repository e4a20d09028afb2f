"""What a test needs and a machine may lack: the one place where tests are skipped.

A test says `@pytest.mark.needs("mpi4py", "mpirun")`, a file says `torch = library("torch")` at its top, and a fixture
that finds something missing calls `lacking`. Whatever `.[dev]` installs on every machine is no need: it is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, NoReturn

import pytest
from support.system_packages import SYSTEM
from threadpoolctl import ThreadpoolController


@dataclass(frozen=True)
class Need:
    """Something a test cannot do without: whether it is there, and how to get it."""

    met: Callable[[pytest.Config], bool]
    remedy: str
    full: bool = False
    """`make test-full` provides it, `make test` does not."""


def _package(name: str, remedy: str, full: bool = False) -> Need:
    return Need(lambda config: find_spec(name) is not None, remedy, full)


def _variable(name: str, meaning: str) -> Need:
    return Need(lambda config: bool(os.environ.get(name)), f"set {name} to {meaning}")


def _anecc(config: pytest.Config) -> bool:
    return which("anecc") is not None or all(find_spec(name) for name in ("anecc", "click", "construct"))


FULL = ("construct", "cryptography", "distributed", "flax", "jax", "lzfse", "mpi4py", "onnxscript", "perfetto",
        "selenium", "tinygrad", "torch", "transformers", "viztracer")
"""Packages of the extra `full`."""

NEEDS = {
    **{name: _package(name, "make test-full", full=True) for name in FULL},
    **{name: Need(lambda config, there=there: there.there(), f"make test-full, or {there.remedy}", full=True)
       for name, there in SYSTEM.items()},
    "minutes": Need(lambda config: config.getoption("full"), "make test-full", full=True),
    "coremltools": _package("coremltools", "pip install 'openane[coreml]'"),
    "numba": _package("numba", "pip install 'openane[fast]'"),
    "product threads": Need(lambda config: bool(ThreadpoolController().select(user_api="blas").lib_controllers),
                            "a numpy whose products have threads that threadpoolctl knows"),
    "anecc": Need(_anecc, "install the converter of the Linux driver from the sources of eiln/anecc"),
    "libane": Need(lambda config: bool(os.environ.get("OPENANE_LIBANE")) and all(map(which, ("git", "gcc"))),
                   "set OPENANE_LIBANE to a git repository of eiln/ane; apt-get install git gcc libc6-dev libdrm-dev"),
    "OPENANE_CHECKPOINTS": _variable("OPENANE_CHECKPOINTS", "a folder with stories260K.bin and tok512.bin of llama2.c"),
    "other than macOS": Need(lambda config: sys.platform != "darwin", "run it on another system"),
}

FILE: ContextVar[pytest.Module | None] = ContextVar("FILE", default=None)
"""The file of tests that is imported just now."""


def lacking(need: str, remedy: str) -> NoReturn:
    """Skips the test, or the file that is being imported, for want of `need`, which the list of `support.skips` has."""
    pytest.skip(f"needs {need}: {remedy}", allow_module_level=True)


def library(name: str) -> Any:
    """A package a machine may lack. At the top of a file all its tests need it; a test that only `make test-full` can
    run must say so in advance, so within a test such a package is asked for by a mark."""
    need, file = NEEDS[name], FILE.get()
    if file is not None:
        file.add_marker(pytest.mark.needs(name))
    elif need.full:
        raise pytest.UsageError(f"mark the test with needs({name!r}), and import {name}")
    if find_spec(name) is None:
        lacking(name, need.remedy)
    return importlib.import_module(name)


def corpus_file(corpus: Path, name: str) -> Path:
    """A file of the outside data; the test is skipped where the folder does not hold it."""
    path = corpus / name
    if not path.is_file():
        lacking(name, "it is not in the folder that OPENANE_CORPUS names")
    return path


def needed(item: pytest.Item) -> list[str]:
    """What the marks of a test name."""
    return [name for mark in item.iter_markers("needs") for name in mark.args]
