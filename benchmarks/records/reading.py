"""Records of Apple's compiler: JSON documents with a MIL program and every register word emitted for it."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openane.chips import get_chip
from openane.compiler import compile
from openane.errors import AneError
from openane.graph import Graph
from openane.importers.mil import load_mil
from openane.program import Program

Words = tuple[int, ...]
OLDEST = "h13"
"""The generation of records in which every task has all registers; later ones say their own."""


@dataclass(frozen=True)
class Record:
    """One program Apple's compiler made for a generation; of its constant section the bytes, the SHA-256 and how many
    are not zero, and where coefficients have a section of their own that one's bytes and SHA-256. `descriptor` is what
    it states of the program descriptor (see `descriptors`)."""

    name: str
    family: str
    mil: str
    tasks: tuple[Words, ...]
    shapes: tuple[tuple[int, ...], ...]
    constants_size: int
    constants_hash: str
    constants_nonzero: int
    path: Path
    generation: str = OLDEST
    kernels: tuple[int, str] | None = None
    descriptor: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Compilation:
    """What we make of a record's MIL: a program, or the error that refused it. `seconds` is the best of a few runs
    of `compile` alone (reading the MIL not counted)."""

    graph: Graph | None
    program: Program | None
    refusal: str = ""
    seconds: float = 0.0


def record_words(task: dict[str, Any]) -> Words:
    """The words of a recorded task: its header, then each run of register writes behind its head."""
    words = [int(word, 16) for word in task["header"]]
    if task.get("ext") is not None:
        words.append(int(task["ext"], 16))
    registers = {int(address, 16): int(word, 16) for address, word in task["regs"].items()}
    for base, count in task["records"]:
        address = int(base, 16)
        words += [(count - 1) << 26 | address, *(registers.get(address + 4 * i, 0) for i in range(count))]
    return tuple(words)


def framed_words(record: dict[str, Any], generation: str) -> list[Words]:
    """The words of every task of a record of H14 or later: its header, then each run's head and its words."""
    chip = get_chip(generation)
    header = len(chip.header.by_address) - 1
    tasks = []
    for task in record["task_descriptors"]:
        registers = {int(a, 16): int(w, 16) for block in task["blocks"].values() for a, w in block["words"].items()}
        words = [int(word, 16) for word in task["header_words"]]
        for run in task["records"]:
            head = int(run["header"], 16)
            alone = (*words[:header - 1], 1, head, *(0,) * run["count"])
            words += [head, *(registers[address] for address in chip.addresses(chip.decode(alone)))]
        tasks.append(tuple(words))
    return tasks


def read_records(folder: Path) -> list[Record]:
    """Every record of a folder (and its subfolders), by name."""
    return [read_record(path) for path in sorted(folder.rglob("*.json"))]


def read_record(path: Path) -> Record:
    """One record."""
    data = json.loads(path.read_text())
    if "task_descriptors" in data:
        return _read_framed(data, path)
    constant = data.get("constant") or {}
    return Record(data.get("case", path.stem), data.get("family", ""), data["mil"],
                  tuple(record_words(task) for task in data["tasks"]),
                  tuple(tuple(tensor["shape"]) for tensor in data.get("tensors", ())),
                  constant.get("size", 0), constant.get("sha256", ""), constant.get("nonzero_bytes", 0), path,
                  descriptor={key: data[key] for key in ("program",) if key in data})


def _read_framed(data: dict[str, Any], path: Path) -> Record:
    """A record of H14 or later."""
    generation, constant = data["target"], data.get("constant_section") or {}
    kernels = (data.get("kernel_section") or [None])[0]
    return Record(data.get("case", path.stem), data.get("family", ""), data["mil"],
                  tuple(framed_words(data, generation)),
                  tuple(tuple(tensor["shape"]) for tensor in data.get("tensor_descriptors", ())),
                  constant.get("size", 0), constant.get("sha256", ""), constant.get("nonzero_bytes", 0), path,
                  generation, None if kernels is None else (kernels["size"], kernels["sha256"]),
                  {key: data[key] for key in ("program_descriptor", "program_descriptor_words") if key in data})


def materialiser(folder: Path) -> Callable[[str, str], None]:
    """The function of the folder's materialise.py that writes a record's MIL and weights."""
    spec = importlib.util.spec_from_file_location("materialise", folder / "materialise.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(folder / "materialise.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main  # type: ignore[no-any-return]


def compile_record(record: Record, materialise: Callable[[str, str], None], repeats: int = 2) -> Compilation:
    """Our program for the record's MIL with the weights Apple's compiler packed."""
    with tempfile.TemporaryDirectory() as folder:
        materialise(str(record.path), folder)
        try:
            graph = load_mil(Path(folder) / "model.mil")
            seconds = []
            for _ in range(repeats):
                start = time.perf_counter()
                program = compile(graph, record.generation).program
                seconds.append(time.perf_counter() - start)
        except AneError as error:
            return Compilation(None, None, " ".join(str(error).split()))
        except Exception as error:
            return Compilation(None, None, f"failed with {type(error).__name__}: {error}")
    return Compilation(graph, program, "", min(seconds))
