"""A model in several shapes on the command line: compiled once for each, chosen by the files that are given as
inputs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from openane.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openane.cli.arrays import Array
    from openane.compiler import Model
    from openane.devices.shapes import ShapeChoice
    from openane.graph import Graph

def several_shapes(options: Namespace) -> bool:
    """Whether --shape gives alternatives."""
    return any(not isinstance(extent, int) for _, shape in options.shape for extent in shape)


def refuse_padding(options: Namespace, compiled: bool = False) -> None:
    """UnsupportedError for --pad where a model is in one shape; what is compiled already is refused with more."""
    if options.pad and not compiled:
        raise UnsupportedError("--pad", "arrays are filled up for a model in several shapes", found="one shape",
                               remedy='give several, such as --shape "x={16,32}x8", or leave --pad out')


def require_one_shape(options: Namespace) -> None:
    """UnsupportedError for alternatives where a command looks at one shape."""
    if several_shapes(options):
        raise UnsupportedError("--shape", "this command looks at a model in one shape", found="alternatives",
                               remedy="name one of them; ane compile and ane run take several")


def shaped_model(graphs: Sequence[Graph], options: Namespace, target: str) -> Model:
    """The model compiled for all of its shapes, padded as --pad says."""
    from openane.compiler import compile_shapes
    from openane.ops.optimisation import with_level

    graphs = [with_level(graph, options.optimise) for graph in graphs]
    padding = dict(options.pad) if options.pad else None
    return compile_shapes(graphs, padding, target, options.allow_host, not options.no_cache, options.precision)


def chosen(model: Model, files: Mapping[str, Path]) -> tuple[Model, ShapeChoice | None]:
    """The function for the arrays in the files, and how these are padded for it; the model itself where there is
    nothing to choose. DeviceError where no shape holds them."""
    from openane.devices.shapes import choose
    from openane.numpy_files import read_npy

    if model.padding is None or not files:
        return model, None
    found = choose(model.functions, model.padding, {name: read_npy(file).shape for name, file in files.items()})
    return model.functions[found.function], found


def padded(files: Mapping[str, Path], choice: ShapeChoice) -> dict[str, Array]:
    """The arrays in the files, as the chosen function takes them."""
    from openane.numpy_files import read_npy

    return choice.pad({name: read_npy(file) for name, file in files.items()})
