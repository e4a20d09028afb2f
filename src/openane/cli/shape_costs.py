"""What each shape of a model in several shapes costs, side by side."""

from __future__ import annotations

from collections.abc import Iterator

from openane.cli.compile_targets import modelled
from openane.cli.output import shape_text, table
from openane.compiler import Model
from openane.formats.bundled import shared_bytes
from openane.record_classes import dataclass
from openane.wording import byte_text

HEADING = ("function", "inputs", "tasks", "constants", "beside others", "total us")
LEGEND = ("beside others: constants that no function above has; total: one inference, with the call through macOS, "
          "modelled")


@dataclass(frozen=True, slots=True)
class ShapeCost:
    """What one function of a model in several shapes costs: tasks, bytes of constants, of these what functions before
    it have not, and modelled seconds of an inference."""

    function: str
    inputs: str
    tasks: int
    constants: int
    own: int
    seconds: float


def costs(model: Model) -> Iterator[ShapeCost]:
    """Every function in turn."""
    every = [program for each in model.functions.values() for program in each.programs]
    shared = iter(shared_bytes(every))
    shapes = [{port.name: port.shape for port in each.inputs} for each in model.functions.values()]
    for name, each in model.functions.items():
        size = sum(len(program.constants) for program in each.programs)
        changing = [f"{port.name} {shape_text(port.shape)}" for port in each.inputs
                    if len({own[port.name] for own in shapes}) > 1]
        yield ShapeCost(name, ", ".join(changing), sum(len(program.tasks) for program in each.programs), size,
                        size - sum(next(shared) for _ in each.programs), modelled(each, model.target).seconds)


def cost_lines(model: Model) -> Iterator[str]:
    """What every shape costs, as a table."""
    yield from table([HEADING, *((each.function, each.inputs, str(each.tasks), byte_text(each.constants),
                                  byte_text(each.own), f"{each.seconds * 1e6:.0f}") for each in costs(model))])
    yield LEGEND
    padding = ", ".join(f"{name} with {number:g}" for name, number in (model.padding or {}).items())
    exact = "inputs must have one of these shapes (--pad NAME=0 lets smaller ones be padded)"
    yield f"smaller inputs are padded: {padding}" if padding else exact
