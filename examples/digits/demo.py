"""What `make demo` runs: the digit classifier compiled for the engine, looked into, and run on every test image.

The program is written to build/digits.hwx, so `ane info`, `ane dis` and `ane run` can be tried on it afterwards.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from textwrap import wrap

import numpy as np
import onnxruntime
from digits import load_split

import openane as ane
from openane.chips import get_chip
from openane.cli.output import shape_text, table
from openane.cli.progress import progress
from openane.engine import Access, NeuralOperation, Operation, Space, sources
from openane.program.text import disassemble
from openane.wording import byte_text, plural

MODEL = Path(__file__).with_name("digits.onnx")
FILE = Path("build/digits.hwx")
SHOWN = ("Common", "NE")  # blocks of the first task whose fields are shown
WIDTH = 118


def main() -> int:
    """Runs the demo; 1 when the engine program and the float model disagree more than fp16 explains."""
    start = time.perf_counter()
    say("OpenANE demo: a digit classifier as one program for the Apple Neural Engine of A14 and M1 (H13)")

    heading("Model")
    graph = ane.load_graph(MODEL)
    for side, values in (("input", graph.inputs), ("output", graph.outputs)):
        say(*(f"{side:<7} {value.name:<14} {shape_text(value.shape)}" for value in values))
    say(f"{plural(len(graph.nodes), 'operation')} from {MODEL.name}: " + ", ".join(node.op for node in graph.nodes))

    heading("Compile")
    model = ane.compile(graph, target="h13")
    FILE.parent.mkdir(exist_ok=True)
    model.save(FILE)
    program = ane.load_program(FILE)
    same = program == model.program
    say(f"{FILE}: {plural(len(program.tasks), 'task')}, {byte_text(len(program.constants))} of constants, "
        f"{byte_text(FILE.stat().st_size)}, {plural(len(model.host_operations), 'host operation')}",
        f"read back: {'the same program' if same else 'A DIFFERENT PROGRAM'}")

    heading("Disassembly", f"two blocks of the first task; all of it with: ane dis {FILE}")
    say(*excerpt(program))

    heading("Tasks")
    operations = [get_chip(program.chip).operation(task.words) for task in program.tasks]
    say(*table(list(task_rows(operations)), heading=("task", "engine", "operation", "result NxCxDxHxW", "bytes read",
                                                     "written", "coefficients")))
    moved = sum(sum(traffic(operation)) for operation in operations)
    say(f"one image moves {byte_text(moved)} between memory and the engine")

    heading("Run", "the whole test split, on the simulator")
    _, (images, labels) = load_split()
    found, arithmetic, seconds = run(program, images)
    say(f"{len(images)} images in {seconds:.1f} s, {len(program.tasks)} tasks each, {arithmetic} arithmetic")
    agree = report(found, float_model(images), labels)
    say("", f"{time.perf_counter() - start:.1f} s in all")
    return 0 if same and agree else 1


def excerpt(program: ane.Program) -> Iterator[str]:
    """The first task's head line and summary, and the fields of two of its blocks."""
    lines = iter(list(disassemble(program)))
    line = next(line for line in lines if line.startswith("task "))
    yield from (line, *wrap(next(lines), WIDTH, subsequent_indent="  ;   "))
    block = ""
    for line in takewhile(bool, lines):
        if not line.startswith("    "):
            block = line.split()[0]
        if block in SHOWN:
            yield line


def float_model(images: np.ndarray) -> np.ndarray:
    """Probabilities fp32 [N, 10] the ONNX file gives in onnxruntime, with its fp32 weights."""
    session = onnxruntime.InferenceSession(MODEL)
    return np.concatenate([session.run(None, {"image": image[None]})[0] for image in images])


def run(program: ane.Program, images: np.ndarray) -> tuple[np.ndarray, str, float]:
    """Probabilities fp32 [N, 10] of every image, from the program as it was read from its file; the arithmetic used;
    seconds."""
    results = []
    start = time.perf_counter()
    with ane.open_device("simulator") as device:
        executable = device.load(program)
        for image in progress(images, len(images), "running"):
            results.append(executable.run({"image": image[None]})["probabilities"].reshape(1, -1))
        arithmetic = " and ".join(executable.report.arithmetic)
    return np.concatenate(results).astype(np.float32), arithmetic, time.perf_counter() - start


def report(found: np.ndarray, wanted: np.ndarray, labels: np.ndarray) -> bool:
    """Prints accuracies and errors; whether the program classifies as well as the float model."""
    right, reference = (found.argmax(1) == labels).mean(), (wanted.argmax(1) == labels).mean()
    same = int((found.argmax(1) == wanted.argmax(1)).sum())
    error = np.abs(found - wanted)
    worst = int(error.max(1).argmax())
    say(*table([("accuracy of the float model", f"{reference:.2%}", "(onnxruntime, fp32)"),
                ("accuracy of the engine program", f"{right:.2%}", "(simulated, fp16)"),
                ("same digit", f"{same} of {len(labels)}", ""),
                ("worst error of a probability", f"{error.max():.5f}", f"(image {worst}; mean {error.mean():.1e})")]))
    return bool(error.max() < 0.02 and right >= reference - 0.005)


def task_rows(operations: list[Operation]) -> Iterator[tuple[object, ...]]:
    """One row per task: which engine, what it does, the result's extents and the bytes it moves."""
    for number, operation in enumerate(operations):
        engine = "neural" if isinstance(operation, NeuralOperation) else "planar"
        yield number, engine, type(operation).__name__, shape_text(operation.result.shape), *traffic(operation)


def traffic(operation: Operation) -> tuple[int, int, int]:
    """Bytes of memory a task reads, writes and fetches as coefficients; L2 and broadcast repeats do not count."""
    coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
    fetched = coefficients.size if coefficients is not None else 0
    return sum(map(in_memory, sources(operation))), in_memory(operation.result), fetched


def in_memory(access: Access) -> int:
    """Bytes of the distinct elements of an operand in memory."""
    if access.space is not Space.MEMORY:
        return 0
    once = [1 if stride == 0 else extent for extent, stride in zip(access.shape, access.strides, strict=True)]
    return int(np.prod(once)) * access.dtype.size


def heading(title: str, note: str = "") -> None:
    """A section's title."""
    say("", f"{title}{f'  ({note})' if note else ''}", "-" * len(title))


def say(*lines: str) -> None:
    """Prints lines."""
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
