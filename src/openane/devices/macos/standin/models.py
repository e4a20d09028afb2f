"""What the stand-in's compiler makes of MIL text: a model with its weights baked in, its ports as surfaces hold them.

Graphs are computed by the operations' references in fp32; results are rounded to the element types of the ports. The
layout of a surface follows what compiled programs tell of themselves: rows of a multiple of 64 bytes, planes of rows,
batches of planes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.errors import AneError, FormatError, UnsupportedError
from openane.formats.blob import read_blob
from openane.graph import Graph, Value, numpy_type
from openane.graph.mil import parse_mil
from openane.ops import get_op
from openane.ops.evaluate import evaluate
from openane.record_classes import dataclass
from openane.rounding import round_up

TYPES = {"fp16": "Float16", "int8": "Int8", "uint8": "UInt8", "int16": "Int16", "uint16": "UInt16"}
"""Element types ports may have, and what a model's attributes call them."""
LARGEST_RANK = 5
LARGEST_PORT = 2**30


class Refused(Exception):
    """The compiler does not take a program; `front` says that its front end refused it."""

    def __init__(self, reason: str, front: bool = False) -> None:
        self.reason, self.front = reason, front
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class StandinPort:
    """An input or output: extents in batches, channels, depth, height and width, and their strides in bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    extents: tuple[int, int, int, int, int]
    strides: tuple[int, int, int, int, int]

    @property
    def size(self) -> int:
        """Bytes a surface must have."""
        return self.strides[0] * self.extents[0]

    @property
    def packed_size(self) -> int:
        """Bytes of the tensor without gaps."""
        return int(np.prod(self.shape, dtype=np.int64)) * numpy_type(self.dtype).itemsize

    def view(self, memory: np.ndarray) -> np.ndarray:
        """The tensor in a surface's bytes."""
        return np.ndarray(self.extents, numpy_type(self.dtype), memory.data, 0, self.strides)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled model. Ports are in alphabetical order, whatever order the text declares."""

    graph: Graph
    inputs: tuple[StandinPort, ...]
    outputs: tuple[StandinPort, ...]

    def execute(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Runs from and to the bytes of surfaces, in the ports' order."""
        results = self.run([port.view(memory) for port, memory in zip(self.inputs, inputs, strict=True)])
        for port, memory, result in zip(self.outputs, outputs, results, strict=True):
            port.view(memory)[...] = result

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs for inputs, both of the ports' extents and in their order."""
        given = {port.name: array.reshape(port.shape) for port, array in zip(self.inputs, arrays, strict=True)}
        found = evaluate(self.graph, given)
        with np.errstate(over="ignore", invalid="ignore"):
            return [np.asarray(found[port.name], numpy_type(port.dtype)).reshape(port.extents)
                    for port in self.outputs]


def compile_text(text: bytes, files: Mapping[str, bytes], alignment: int) -> Compiled:
    """The model of MIL text; `files` are the weight files by the path the text names. Refused says what the compiler
    does not take."""
    def blob(path: str, offset: int) -> tuple[str, memoryview]:
        if path not in files:
            raise FormatError(f"weight file {path!r} was not given")
        return read_blob(files[path], offset)

    try:
        graph = parse_mil(text.decode(), blob)
        graph.verify()
        for node in graph.nodes:
            get_op(node.op)
    except UnsupportedError as error:
        raise Refused(str(error), front=True) from None
    except (AneError, UnicodeDecodeError) as error:
        raise Refused(f"InvalidMILProgram: {error}", front=True) from None
    if any(key.startswith("state:") for key in graph.metadata):
        raise Refused("programs with states are not taken", front=True)
    return Compiled(graph, _ports(graph.inputs, alignment), _ports(graph.outputs, alignment))


def _ports(values: Sequence[Value], alignment: int) -> tuple[StandinPort, ...]:
    return tuple(_port(value, alignment) for value in sorted(values, key=lambda value: value.name))


def _port(value: Value, alignment: int) -> StandinPort:
    """A port: dimensions fill batches, channels, height and width from the right; the fifth is depth."""
    if value.dtype not in TYPES:
        raise Refused(f"{value.name} is {value.dtype}; ports are {', '.join(TYPES)}", front=True)
    if len(value.shape) > LARGEST_RANK or not all(value.shape):
        raise Refused(f"{value.name} has {len(value.shape)} dimensions {list(value.shape)}")
    if len(value.shape) == LARGEST_RANK:
        batches, channels, depth, height, width = value.shape
    else:
        batches, channels, height, width = (1,) * (4 - len(value.shape)) + value.shape
        depth = 1
    element = numpy_type(value.dtype).itemsize
    row = round_up(width * element, alignment)
    plane = row * height
    deep = plane * channels
    port = StandinPort(value.name, value.shape, value.dtype, (batches, channels, depth, height, width),
                       (deep * depth, plane, deep, row, element))
    if port.size > LARGEST_PORT:
        raise Refused(f"{value.name} takes {port.size} bytes; the limit is {LARGEST_PORT}")
    return port
