"""How fast the simulator is beside numpy, in one run: every line is a ratio or a rate, with its aim.

Convolutions and matrix products in `fast` arithmetic as a fraction of numpy's float32 product of the same size;
`exact` in products per second, by numba and by numpy, and of MiniLM beside `fast`; elementwise programs as a fraction
of the same expression in numpy float32 with casts from and to fp16; peak memory over the program's buffers. Apple's
programs take part when $OPENANE_CORPUS is set.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np

import openane as ane
from openane.chips import get_chip
from openane.engine import (
    Access,
    Binary,
    Coefficients,
    CoefficientSection,
    CoefficientStream,
    Convolution,
    Elementwise,
    Geometry,
    Operation,
    multiplications,
)
from openane.formats import load_program
from openane.program import Buffer, Layout, Program, Role
from openane.simulator import LoadedProgram, load, load_operations
from openane.simulator.arithmetic import select

Shape = tuple[int, int, int, int, int]
IMAGE: Shape = (1, 1, 1, 2560, 1600)
REPEATS = 9
TOKENS = 128
CHIP = get_chip("h13")

EXPRESSIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "mul": np.multiply, "sub": np.subtract, "max": np.maximum, "abs": np.abs, "square": np.square,
    "relu": lambda x: np.maximum(x, 0), "exp": np.exp, "tanh": np.tanh, "sqrt": lambda x: np.sqrt(np.abs(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softmax": lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1)[..., None],
}
CONVOLUTIONS = {  # name: input channels, output channels, height, width, kernel
    "conv 3x3 c64 n64 s112": (64, 64, 112, 112, 3),
    "conv 3x3 c256 n256 s56": (256, 256, 56, 56, 3),
    "conv 1x1 c512 n512 s28": (512, 512, 28, 28, 1),
    "conv 7x7 c3 n64 s112": (3, 64, 112, 112, 7),
    "matmul m512 k1024 n1024": (1024, 1024, 1, 512, 1),
    "matmul m1 k4096 n4096": (4096, 4096, 1, 1, 1),
}


def best(function: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the fastest of some runs, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def described(name: str) -> tuple[Operation, list[Buffer], bytes, tuple[int, int, int]]:
    """A convolution with random weights: operation, buffers, constants, and the extents of its matrix product."""
    inputs, outputs, height, width, kernel = CONVOLUTIONS[name]
    rows = inputs * kernel * kernel
    form = CHIP.limits.coefficients
    lanes = max(1, min(16, outputs // form.cores))
    streams = tuple(CoefficientStream(*stream) for stream in form.dense(Geometry(1, outputs, rows), lanes,
                                                                        bias=False).streams)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(sum(stream.size for stream in streams) // 2, np.float32)
    constants = (weights / np.sqrt(rows)).astype(np.float16)
    source, result = (Layout.packed((1, channels, 1, height, width), CHIP.limits.memory_alignment)
                      for channels in (inputs, outputs))
    operation = Convolution(
        source=Access(slot=4, shape=source.shape, strides=source.strides),
        result=Access(slot=5, shape=result.shape, strides=result.strides),
        coefficients=Coefficients.together(CoefficientSection.of(1, streams), lanes=lanes),
        kernel=(1, kernel, kernel), padding=(0, kernel // 2, kernel // 2))
    buffers = [Buffer("x", 4, Role.INPUT, source.size, source), Buffer("y", 5, Role.OUTPUT, result.size, result)]
    return operation, buffers, constants.tobytes(), (outputs, rows, height * width)


def convolution(name: str, arithmetic: str) -> tuple[LoadedProgram, tuple[int, int, int]]:
    """The same loaded, with random inputs."""
    operation, buffers, constants, extents = described(name)
    loaded = load_operations([operation], buffers, constants, arithmetic=arithmetic, chip=CHIP)
    fill(loaded, "x")
    return loaded, extents


def elementwise(name: str) -> LoadedProgram:
    """A program of our own for one expression over the image, where there is none of Apple's."""
    layout = Layout.packed(IMAGE, CHIP.limits.memory_alignment)
    a, b, y = (Access(slot=slot, shape=layout.shape, strides=layout.strides) for slot in (5, 6, 4))
    functions = {"add": Binary.ADD, "mul": Binary.MULTIPLY, "max": Binary.MAXIMUM}
    operations: dict[str, Operation] = {
        key: Elementwise(first=a, second=b, result=y, function=function) for key, function in functions.items()}
    operations["abs"] = Elementwise(first=a, result=y, absolute=True)
    operations["relu"] = Elementwise(first=a, result=y, relu=True)
    ports = [("output0", 4), ("input0", 5), ("input1", 6)][:3 if name in functions else 2]
    buffers = [Buffer(key, slot, Role.INPUT, layout.size, layout) for key, slot in ports]
    return load_operations([operations[name]], buffers, chip=CHIP)


def fill(loaded: LoadedProgram, name: str) -> np.ndarray:
    """Random fp16 numbers in a buffer."""
    values = loaded.buffers[name].view(np.float16)
    values[:] = np.random.default_rng(1).standard_normal(values.size, np.float32).astype(np.float16)
    return values


def report_products() -> None:
    for name in CONVOLUTIONS:
        loaded, (rows, terms, columns) = convolution(name, "fast")
        left, right = np.ones((rows, terms), np.float32), np.ones((terms, columns), np.float32)
        peer, ours = best(lambda a=left, b=right: a @ b), best(loaded.run)  # type: ignore[misc]
        print(f"fast   {name:26s} {peer / ours:5.2f} of numpy sgemm (aim 0.5)   "
              f"{rows * terms * columns / ours / 1e9:6.1f} G products/s")
    for name in ("conv 3x3 c64 n64 s112", "conv 1x1 c512 n512 s28", "matmul m512 k1024 n1024"):
        rates = dict(exact_rates(name))
        numba = f"{rates['numba']:5.2f} by numba (aim 2)" if "numba" in rates else "numba is not installed"
        print(f"exact  {name:26s} {numba}   {rates['numpy']:5.2f} by numpy (aim 0.3)   G products/s")


def exact_rates(name: str) -> Iterator[tuple[str, float]]:
    """G products per second of a convolution in exact arithmetic, by what computes it."""
    for limit in (select.COMPILED_FROM, sys.maxsize):
        with mock.patch.object(select, "COMPILED_FROM", limit):
            loaded, (rows, terms, columns) = convolution(name, "exact")
            seconds = best(loaded.run, REPEATS if limit < sys.maxsize else 1)
        (form,) = loaded.run().forms if limit < sys.maxsize else ("numpy",)
        yield form, rows * terms * columns / seconds / 1e9


def report_minilm() -> None:
    """MiniLM's six layers over 128 embeddings, with random weights."""
    try:
        import onnx
        from networks import transformers
    except ImportError as missing:
        print(f"minilm skipped: {missing}")
        return
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(transformers.minilm(TOKENS), f"{folder}/minilm.onnx")
        model = ane.compile(ane.load_graph(f"{folder}/minilm.onnx"))
    feeds = {port.name: np.random.default_rng(2).standard_normal(port.shape).astype(np.float16)
             for port in model.inputs}
    rates: dict[str, float] = {}
    for name, arithmetic, limit in (("fast", "fast", 0), ("exact", "exact", select.COMPILED_FROM),
                                    ("numpy", "exact", sys.maxsize)):
        with mock.patch.object(select, "COMPILED_FROM", limit), ane.open_device(
                f"simulator?arithmetic={arithmetic}") as device, device.load(model) as executable:
            seconds = best(lambda e=executable: e.run(feeds), 1 if name == "numpy" else 5)  # type: ignore[misc]
            forms = " and ".join(executable.report.forms)
            rates[name] = products(model.program) / seconds / 1e9
            print(f"minilm {arithmetic:5} by {forms:16} {rates[name]:6.2f} G products/s   {seconds * 1e3:7.0f} ms   "
                  f"{rates[name] / rates['fast']:5.2f} of fast")


def products(program: Program) -> int:
    """Multiplications of a program's convolutions and matrix products."""
    chip = get_chip(program.chip)
    return sum(multiplications(chip.operation(task.words)) for task in program.tasks)


def report_elementwise() -> None:
    corpus = os.environ.get("OPENANE_CORPUS")
    for name, expression in EXPRESSIONS.items():
        path = Path(corpus or "") / "apple" / "anec" / f"{name}.anec"
        if corpus and path.is_file():
            loaded, origin = load(load_program(path)), "Apple's"
        elif name in ("add", "mul", "max", "abs", "relu"):
            loaded, origin = elementwise(name), "our own"
        else:
            continue
        arrays = [fill(loaded, key).reshape(IMAGE[-2:]) for key in sorted(loaded.buffers) if key.startswith("input")]

        def peer(arrays: list[np.ndarray] = arrays, expression: Callable[..., np.ndarray] = expression) -> np.ndarray:
            return expression(*(x.astype(np.float32) for x in arrays)).astype(np.float16)

        ratio = best(peer, 3) / best(loaded.run, 3)
        print(f"planar {name:26s} {ratio:5.2f} of numpy float32 with casts (aim 0.5)   {origin} program")


def report_memory() -> None:
    for name in CONVOLUTIONS:
        operation, buffers, constants, _ = described(name)
        tracemalloc.start()
        loaded = load_operations([operation], buffers, constants, arithmetic="fast", chip=CHIP)
        loaded.run()
        peak = tracemalloc.get_traced_memory()[1] + len(constants)
        tracemalloc.stop()
        size = sum(buffer.size for buffer in buffers) + len(constants)
        fixed = loaded.memory.l2.size
        print(f"memory {name:26s} {peak / (size + fixed):5.2f} times buffers, constants and L2 (aim 4)   "
              f"{peak / size:5.2f} without the 2 MiB of L2   {peak / 2**20:6.1f} MiB")


def main() -> int:
    report_products()
    report_minilm()
    report_elementwise()
    report_memory()
    return 0


if __name__ == "__main__":
    sys.exit(main())
