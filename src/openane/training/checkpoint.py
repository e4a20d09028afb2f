"""Checkpoints: folders that appear complete or not at all, each with everything a training needs to go on.

`weights.safetensors` has the fp32 master weights by name, `optimiser.safetensors` what the optimiser remembers
(`NAME/SLOT`), `state.json` the rest and a digest of each of the three, so that a damaged checkpoint is passed over.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import AneError, FormatError
from openane.formats.folders import remove_folder, write_folder
from openane.version import pip_line

WEIGHTS, OPTIMISER, STATE = "weights.safetensors", "optimiser.safetensors", "state.json"
NAME = re.compile(r"step-(\d{8,16})")
TORN = re.compile(r"\.step-\d{8,16}\..*")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Checkpoint:
    """A training at the end of a step. `state` is plain JSON data."""

    step: int
    weights: Arrays
    slots: Arrays
    state: Mapping[str, Any]


def save(folder: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Writes a checkpoint durably under `folder`, and then removes all but the last `keep` up to it, and later ones:
    a training that goes on has passed those over. AneError where safetensors
    is missing, OSError when the disk is full: earlier checkpoints stay as they are."""
    files = {WEIGHTS: _packed(checkpoint.weights), OPTIMISER: _packed(checkpoint.slots)}
    state: dict[str, Any] = {"step": checkpoint.step, "digests": {name: _digest(data) for name, data in files.items()},
             "training": dict(checkpoint.state)}
    state["digests"][STATE] = _digest_of(state)
    files[STATE] = json.dumps(state, indent=1, allow_nan=False).encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / _name(checkpoint.step)
    write_folder(target, files, durable=True, replace=True)
    found = _folders(folder)
    place = found.index(target)
    for old in (*found[:place], *found[place + keep:]):
        remove_folder(old)
    return target


def latest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The last checkpoint under `folder` that is whole, None where there is none; and why later ones were passed
    over."""
    refused: list[str] = []
    for place in _folders(folder):
        try:
            return load(place), refused
        except FormatError as error:
            refused.append(str(error))
    return None, refused


def load(place: Path) -> Checkpoint:
    """One checkpoint. FormatError when a file of it is missing, damaged or of another form."""
    try:
        state = json.loads((place / STATE).read_text("utf-8"))
        step, digests, training = state["step"], state["digests"], state["training"]
        files = {name: (place / name).read_bytes() for name in (WEIGHTS, OPTIMISER)}
        if digests[STATE] != _digest_of(state) or any(digests[name] != _digest(data) for name, data in files.items()):
            raise FormatError(f"{place}: a file is damaged: its digest is not the one that was noted")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{place} is no whole checkpoint: {error!r}") from None
    if type(step) is not int or not isinstance(training, dict) or place.name != _name(step):
        raise FormatError(f"{place / STATE} is no state of a training")
    return Checkpoint(step, _unpacked(files[WEIGHTS], place / WEIGHTS), _unpacked(files[OPTIMISER], place / OPTIMISER),
                      training)


def tidy(folder: Path) -> None:
    """Removes what a writer that was stopped half-way left behind."""
    if folder.is_dir():
        for path in folder.iterdir():
            if TORN.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)


def _folders(folder: Path) -> list[Path]:
    """Checkpoints, the last first."""
    found = [path for path in folder.iterdir() if NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: (len(path.name), path.name), reverse=True)


def _name(step: int) -> str:
    return f"step-{step:08}"


def _digest_of(state: Mapping[str, Any]) -> str:
    """The digest of a state: of all it says but that."""
    digests = {name: each for name, each in state["digests"].items() if name != STATE}
    return _digest(json.dumps({**state, "digests": digests}, sort_keys=True).encode())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    return bytes(library().save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def _unpacked(data: bytes, path: Path) -> Arrays:
    numpy = library()
    try:
        return {name: np.array(array) for name, array in numpy.load(data).items()}
    except Exception as error:  # the library's errors share no class of their own
        raise FormatError(f"{path} cannot be read as safetensors: {error}") from None


def library() -> Any:
    """The library that checkpoints are written with. AneError where it is not installed."""
    try:
        from safetensors import numpy
    except ImportError:
        raise AneError("checkpoints are safetensors files, and the library is not installed: "
                       f"{pip_line('train')}") from None
    return numpy
