"""`ane compile --compiler apple`: the file Apple's own compiler makes of a model, to compare with ours."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from openane.cli.numbers import expected
from openane.cli.output import say, say_json
from openane.errors import UnsupportedError
from openane.record_classes import dataclass

if TYPE_CHECKING:
    from openane.graph import Graph

OPTIONS = ("runtime", "inject", "timeout")


@dataclass(frozen=True)
class Uncompiled:
    """A graph in the place of a compiled model, for those that take the graph of one."""

    graph: Graph
    name: str
    inputs: Sequence[Any] = ()
    outputs: Sequence[Any] = ()
    states: Sequence[Any] = ()
    programs: Sequence[Any] = ()
    steps: Sequence[Any] = ()

    @property
    def functions(self) -> Mapping[str, Any]:
        """Itself."""
        return {self.name: self}


def parse_mask(text: str) -> int:
    """A mask of 31 bits, decimal or with 0x."""
    try:
        mask = int(text, 0)
    except ValueError:
        mask = -1
    if not 0 <= mask < 2**31:
        raise expected("a number from 0 to 0x7fffffff", text)
    return mask


def compile_elsewhere(graphs: Sequence[Graph], options: argparse.Namespace, output: Path) -> int:
    """Compiles with the compiler --compiler names and writes `output`. UnsupportedError for what it does not do,
    DeviceError where it is not to be had."""
    from openane.devices.macos.apple_compiler import compile_by_apple
    from openane.devices.macos.graph_program import graph_program
    from openane.devices.options import choose, refuse_unknown, seconds
    from openane.formats.files import write_atomically

    kind, _, query = options.compiler.partition("?")
    if kind != "apple":
        raise UnsupportedError("--compiler", "there is openane or apple", found=kind)
    if output.suffix != ".hwx" or len(graphs) != 1:
        raise UnsupportedError(str(output), "Apple's compiler makes one .hwx of one function",
                               remedy=f"-o {output.with_suffix('.hwx')}")
    words = dict(parse_qsl(query, keep_blank_values=True))
    refuse_unknown("Apple's compiler", words, OPTIONS)
    runtime = choose(words, "runtime", ("system", "simulated"), "system")
    data = compile_by_apple(
        graph_program(Uncompiled(graphs[0], graphs[0].name)), options.target, options.debug_mask, runtime=runtime,
        inject=words.get("inject", ""), timeout=seconds(words, "timeout", 300.0),
        keep=output.parent if options.debug_mask is not None else None)
    write_atomically(output, data)
    who = "Apple's compiler" if runtime == "system" else "the stand-in of Apple's compiler"
    if options.json:
        say_json({"compiler": who, "output": str(output), "bytes": len(data), "target": options.target})
    else:
        say(f"{output}: {len(data)} bytes, which {who} made for {options.target}", file=sys.stderr)
    return 0
