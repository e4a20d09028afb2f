"""What `ane run`, `ane profile` and `ane explain` look at: a program or a model with named ports, whatever kind of file
it came from."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from openane.chips.machines import find
from openane.cli.arrays import Array, ArrayPort
from openane.cli.files import container, open_file
from openane.cli.model_options import chosen_target, compilation, model_options, reading, refuse_for_compiled
from openane.cli.shapes import chosen, refuse_padding, several_shapes, shaped_model
from openane.devices import Device
from openane.devices.packer import NUMPY, logical_shape
from openane.devices.shapes import ShapeChoice
from openane.devices.steps import convert
from openane.errors import UnsupportedError
from openane.graph import Graph, mil_type, numpy_type
from openane.ops.drawn_inputs import table_lengths
from openane.program import Buffer, Program
from openane.record_classes import dataclass
from openane.simulator import RunReport

if TYPE_CHECKING:
    from openane.cli.recall import Recall
    from openane.compiler import Model


@dataclass(frozen=True)
class Subject:
    """A program or a compiled model, its ports, and of a model that was compiled now the inputs on which the compiler
    looked at its numbers. `left` are the other targets of a bundle where nobody said which to take, `choice` how inputs
    are padded for the shape that was taken."""

    content: Program | Model
    inputs: tuple[ArrayPort, ...]
    outputs: tuple[ArrayPort, ...]
    tasks: int
    programs: int
    engine_operations: int
    host_operations: int = 0
    from_cache: bool = False
    samples: Mapping[str, Array] | None = None
    left: tuple[str, ...] = ()
    choice: ShapeChoice | None = None

    @property
    def target(self) -> str:
        """The generation it was compiled for."""
        return self.content.chip if isinstance(self.content, Program) else self.content.target

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the model computes in fp32. UnsupportedError for a program that came without its model."""
        if isinstance(self.content, Program):
            raise UnsupportedError("--check", "a compiled program does not hold the model it was made from",
                                   remedy="run the model itself or its bundle (.ane)")
        from openane.compiler.states import reference

        return self._cut(reference(self.content.graph, inputs))

    def tables(self) -> dict[str, int]:
        """How long the tables are that inputs hold positions of, by the inputs' names; nothing is known of those of a
        program."""
        return {} if isinstance(self.content, Program) else table_lengths(self.content.graph)

    def run(self, device: Device, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], float, RunReport]:
        """Outputs in the ports' shapes and types, the seconds of the run, and the device's report."""
        with device.load(self.content) as executable:
            start = time.perf_counter()
            found = executable.run(inputs)
            seconds = time.perf_counter() - start
            report = executable.report
        outputs = {port.name: convert(found[port.name], mil_type(port.dtype), port.name).reshape(port.shape)
                   for port in self.outputs}
        return self._cut(outputs), seconds, report

    def _cut(self, outputs: dict[str, Array]) -> dict[str, Array]:
        """The outputs without what padding made of them."""
        return outputs if self.choice is None else self.choice.cut(outputs)


def subject_options(parser: ArgumentParser) -> None:
    """Declares FILE and the options `open_subject` reads."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a model, a bundle or a program (.hwx, .anec)")
    model_options(parser)
    parser.add_argument("--function", metavar="NAME", help="which function (default: a bundle's first, a model's own)")


def open_subject(options: Namespace, chip: str | None = None, recalls: bool = False) -> Subject:
    """The subject in the file; a model is compiled as the options of `model_options` say, without a target for that of
    `chip`, a machine, chip or generation. The option `function` chooses one of several. UnsupportedError for options
    that compile, where the file is compiled already. One that `recalls` takes a model the cache remembers of the same
    file, without the inputs on which the compiler looked."""
    path: Path = options.file
    files = dict(getattr(options, "input", ()))
    compiled = container(path) is not None
    if several_shapes(options) and not compiled:
        from openane.importers.alternatives import load_shapes

        graphs = load_shapes(path, function=options.function, **reading(options))
        return _shaped(shaped_model(graphs, options, chosen_target(options, chip)), files)
    refuse_padding(options, compiled)
    recall = _recall(path, options, chip) if recalls and not compiled else None
    known = recall.model() if recall is not None else None
    if known is not None:
        return replace(_model_subject(known), from_cache=True)
    content = open_file(path, function=options.function, **reading(options))
    if isinstance(content, Graph):
        from openane.compiler import compile
        from openane.compiler.precision import several

        how = compilation(content, options, chip=chip)
        model = compile(content, **how.arguments)
        if recall is not None:
            recall.keep(content, how.samples)
        return replace(_model_subject(model), from_cache=how.from_cache,
                       samples=next(iter(several(how.samples)), None))
    if isinstance(content, Program):
        refuse_for_compiled(path, options, [content.chip])
        return Subject(content, tuple(map(_buffer_port, content.inputs)), tuple(map(_buffer_port, content.outputs)),
                       len(content.tasks), 1, len(content.tasks))
    refuse_for_compiled(path, options, list(content.targets))
    wanted = options.target or chip
    left = () if wanted else tuple(content.targets)[1:]
    own = _own(content, wanted)
    return replace(_model_subject(_function(own, options.function)) if options.function else _shaped(own, files),
                   left=left)


def _recall(path: Path, options: Namespace, chip: str | None) -> Recall:
    """What the cache may remember of a model."""
    from openane.cli.recall import Recall

    return Recall(path, options, chosen_target(options, chip))


def _shaped(model: Model, files: Mapping[str, Path]) -> Subject:
    """The model, or of one in several shapes the function that the files choose."""
    function, choice = chosen(model, files)
    return replace(_model_subject(function), choice=choice)


def _own(model: Model, wanted: str | None) -> Model:
    """The model for the generation of a machine, chip or generation; its first where it is not compiled for that, or
    none is named."""
    return model if wanted is None else model.targets.get(find(wanted).generation, model)


def _function(model: Model, name: str | None) -> Model:
    if name is None:
        return model
    if name not in model.functions:
        raise UnsupportedError(f"--function {name}", "the model has no such function", found=name,
                               limit=", ".join(model.functions))
    return model.functions[name]


def _model_subject(model: Model) -> Subject:
    from openane.compiler import Where

    def ports(side: str) -> tuple[ArrayPort, ...]:
        return tuple(ArrayPort(p.name, p.shape, numpy_type(p.dtype)) for p in getattr(model, side))

    on_engine = sum(entry.where in (Where.ENGINE, Where.FUSED) for entry in model.report)
    return Subject(model, ports("inputs"), ports("outputs"), sum(len(program.tasks) for program in model.programs),
                   len(model.programs), on_engine, len(model.host_operations))


def _buffer_port(buffer: Buffer) -> ArrayPort:
    if buffer.layout is None:
        return ArrayPort(buffer.name, (buffer.size,), np.dtype(np.uint8), strict=False)
    return ArrayPort(buffer.name, logical_shape(buffer.layout), NUMPY[buffer.layout.dtype], strict=False)
