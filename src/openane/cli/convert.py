"""Write a model in another format, told by the name of OUT: .mlpackage, .mil (weights beside it), .onnx or .plist.

A model is read from any format that 'ane compile' takes. What comes out computes the same with the operations and
element types the compiler sees: fp16 where the engine computes. What a format cannot say is refused with the rule.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from openane.cli.files import container
from openane.cli.model_options import compiled_already, model_options, reading
from openane.cli.output import say
from openane.cli.shapes import require_one_shape
from openane.errors import UnsupportedError

if TYPE_CHECKING:
    from openane.graph import Graph

WRITTEN = (".mlpackage", ".mil", ".onnx", ".plist")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="the model, as for ane compile")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, required=True,
                        help="the file to write: NAME.mlpackage, NAME.mil, NAME.onnx or NAME.plist")
    parser.add_argument("--fp32", action="store_true",
                        help="of NAME.onnx: real numbers are fp32 throughout, for runtimes that compute no fp16; "
                             "constants have all digits that MODEL states")
    parser.add_argument("--function", metavar="NAME", help="which function of a model that has several")
    model_options(parser, "--shape", "--value", "--limit")


def run(options: argparse.Namespace) -> int:
    """Reads the model and writes it."""
    require_one_shape(options)
    if container(options.model) is not None:
        raise compiled_already(options.model, "ane convert")
    output: Path = options.output
    if output.suffix not in WRITTEN:
        raise UnsupportedError(str(output), "models are written in the formats that are named by their suffixes",
                               limit=", ".join(WRITTEN), found=output.suffix or "no suffix",
                               remedy="name the output after one of them")
    if options.fp32 and output.suffix != ".onnx":
        raise UnsupportedError("--fp32", "it says in which type an ONNX model computes", found=output.suffix,
                               remedy="leave it out, or write NAME.onnx")
    from openane.importers import load_graph

    graph = load_graph(options.model, function=options.function, **reading(options))
    _write(graph, output, options.fp32)
    say(f"{output}: {len(graph.nodes)} operations")
    return 0


def _write(graph: Graph, output: Path, wide: bool) -> None:
    """Writes the graph in the format of the suffix. Errors are those of the writer."""
    from openane.importers import write_mlpackage, write_netplist, write_onnx

    if output.suffix == ".mlpackage":
        write_mlpackage(graph, output)
    elif output.suffix == ".onnx":
        write_onnx(graph, output, wide=wide)
    elif output.suffix == ".plist":
        write_netplist(graph, output)
    else:
        from openane.graph.mil.files import write_mil

        write_mil(graph, output)
