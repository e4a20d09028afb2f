"""MIL text: the textual form of Core ML programs, read and written.

    program(1.3)
    [buildInfo = dict<string, string>({{"coremlc-version", "3520.5.1"}})]
    {
      func main<ios18>(tensor<fp16, [1, 64, 8, 8]> x) {
        tensor<fp16, [1, 64, 8, 8]> y = relu(x = x)[name = string("y")];
      } -> (y);
    }

Programs of opsets ios15 to ios26 are read in both spellings (`tensor<string, []>("x")` and `string("x")`). Numerals
and shapes are checked before anything is allocated; nesting has a stated limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openane.errors import GraphError
from openane.graph.graph import Graph
from openane.graph.mil.build import build_graph
from openane.graph.mil.printer import print_mil
from openane.graph.mil.program import MilFunction, MilProgram
from openane.graph.mil.scope import Blobs, Infer
from openane.graph.mil.syntax import parse_syntax

__all__ = ["Blobs", "Infer", "choose_function", "parse_mil", "parse_mil_functions", "print_mil"]


def parse_mil(text: str, blobs: Blobs | None = None, function: str = "main",
              shapes: Mapping[str, Sequence[int]] | None = None, infer: Infer | None = None) -> Graph:
    """The graph of `function` (or of the only function, whatever it is called) in MIL `text`.

    `blobs(path, offset)` gives the bytes of a constant kept in a weight file. `shapes` fixes inputs that leave
    dimensions open, by name, and `infer` gives result types then (see build). Metadata of the graph: `opset`, every
    entry of `buildInfo`, `attribute:NAME` for attributes of the function, `state:NAME` for inputs that are states.
    FormatError with line and column, GraphError, UnsupportedError.
    """
    program = parse_syntax(text)
    return build_graph(program, choose_function(program, function), blobs, shapes, infer)


def choose_function(program: MilProgram, name: str) -> MilFunction:
    """The function called `name`, or the only one. GraphError listing what there is."""
    chosen = [each for each in program.functions if each.name == name]
    if not chosen and len(program.functions) == 1 and name == "main":
        chosen = program.functions
    if len(chosen) != 1:
        raise GraphError(f"the program has {len(chosen)} functions {name!r}; "
                         f"it has {', '.join(each.name for each in program.functions) or 'none'}")
    return chosen[0]


def parse_mil_functions(text: str, blobs: Blobs | None = None) -> list[Graph]:
    """The graphs of all functions in MIL `text`, in order. Errors as for `parse_mil`."""
    program = parse_syntax(text)
    return [build_graph(program, each, blobs) for each in program.functions]
