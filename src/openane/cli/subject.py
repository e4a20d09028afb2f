"""What `ane run` runs: one engine program with named ports, whatever kind of file it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.cli.arrays import Array, Port
from openane.cli.files import open_file
from openane.compiler import Model, Where, compile
from openane.devices.packer import NUMPY, logical_shape
from openane.errors import UnsupportedError
from openane.graph import Graph, numpy_type
from openane.ops.evaluate import evaluate
from openane.program import Buffer, Program


@dataclass(frozen=True)
class Subject:
    """A program, its ports, and the model it was compiled from when that is known."""

    program: Program
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    engine_operations: int
    host_operations: int = 0
    graph: Graph | None = None

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the model computes in fp32. UnsupportedError for a program that came without its model."""
        if self.graph is None:
            raise UnsupportedError("--check", "a compiled program does not hold the model it was made from",
                                   remedy="run the model itself or its bundle (.ane)")
        return evaluate(self.graph, inputs)


def open_subject(path: Path, shapes: dict[str, tuple[int, ...]], target: str) -> Subject:
    """The subject in a file; a model is compiled for `target`, its open input shapes fixed by `shapes`."""
    content = open_file(path, shapes)
    if isinstance(content, Program):
        return Subject(content, tuple(map(_buffer_port, content.inputs)), tuple(map(_buffer_port, content.outputs)),
                       len(content.tasks))
    return _model_subject(compile(content, target=target) if isinstance(content, Graph) else content)


def _model_subject(model: Model) -> Subject:
    def ports(side: str) -> tuple[Port, ...]:
        return tuple(Port(p.name, p.shape, numpy_type(p.dtype)) for p in getattr(model, side))

    on_engine = sum(entry.where in (Where.ENGINE, Where.FUSED) for entry in model.report)
    return Subject(model.program, ports("inputs"), ports("outputs"), on_engine, len(model.host_operations), model.graph)


def _buffer_port(buffer: Buffer) -> Port:
    if buffer.layout is None:
        return Port(buffer.name, (buffer.size,), np.dtype(np.uint8), strict=False)
    return Port(buffer.name, logical_shape(buffer.layout), NUMPY[buffer.layout.dtype], strict=False)
