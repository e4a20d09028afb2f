"""Compile a model into a program for the engine, and say for every operation where it will run.

OUT ending in .hwx or .anec is one engine program, NAME.ane a bundle: a folder that also holds the model.
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openane.cli.files import container, open_file, parse_shape
from openane.cli.output import as_json, byte_text, plural, shape_text, table
from openane.errors import UnsupportedError

if TYPE_CHECKING:
    from openane.compiler import Model


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="the model: .onnx or .mil")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path,
                        help="where to write it (default: MODEL's name with .ane, a bundle, in this folder)")
    parser.add_argument("--layout", choices=("macos26", "compat"), default="macos26",
                        help="form of a .hwx: as Apple's current compiler writes it, or as the Linux tools read it")
    parser.add_argument("--header", choices=("0x1000", "0x800"), default="0x1000",
                        help="size of an .anec's header: what anecc writes, or what libane reads")
    parser.add_argument("--target", metavar="CHIP", default="h13", help="engine generation (default: h13, A14 and M1)")
    parser.add_argument("--shape", metavar="NAME=1x3x224x224", type=parse_shape, action="append", default=[],
                        help="shape of an input the model leaves open; may be repeated")
    parser.add_argument("--dump", metavar="DIR", type=Path, help="also write the model as MIL text and the disassembly")
    parser.add_argument("--json", action="store_true", help="print what became of every operation as JSON")


def run(options: argparse.Namespace) -> int:
    """Compiles, writes and reports."""
    from openane.compiler import compile
    from openane.importers import load_graph

    output = options.output or Path(f"{options.model.stem}.ane")
    if not output.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(output.parent))
    if container(options.model) is not None:
        open_file(options.model)  # a damaged program is that first
        raise UnsupportedError(str(options.model), "this is compiled already",
                               remedy=f"run it: ane run {options.model}, or look into it: ane info {options.model}")
    model = compile(load_graph(options.model, dict(options.shape)), target=options.target)
    if options.dump is not None:
        dump(model, options.dump)
    model.save(output, layout=options.layout, header=int(options.header, 16))
    if options.json:
        print(as_json(document(model, output)))
    else:
        print("\n".join(_text(model, output)), file=sys.stderr)
    return 0


def dump(model: Model, folder: Path) -> None:
    """Writes the source graph as MIL text and every program's disassembly into `folder`."""
    from openane.formats import write_hwx
    from openane.formats.listing import disassemble_bytes, save_listing
    from openane.graph.mil import print_mil

    folder.mkdir(parents=True, exist_ok=True)
    text, weights = print_mil(model.graph)
    (folder / "model.mil").write_text(text)
    if weights:
        (folder / "weights").mkdir(exist_ok=True)
        (folder / "weights" / "weight.bin").write_bytes(weights)
    for number, program in enumerate(model.programs):
        name = f"program{number}.ane.s"
        save_listing(disassemble_bytes(write_hwx(program), name), folder / name)


def document(model: Model, output: Path) -> dict[str, Any]:
    """The compilation as plain data: ports, task count, and where each operation runs and why."""
    def ports(side: Any) -> list[dict[str, Any]]:
        return [{"name": p.name, "dtype": p.dtype, "shape": list(p.shape)} for p in side]

    return {"file": str(output), "target": model.target, "inputs": ports(model.inputs), "outputs": ports(model.outputs),
            "tasks": sum(len(p.tasks) for p in model.programs),
            "constant_bytes": sum(len(p.constants) for p in model.programs),
            "host_operations": len(model.host_operations),
            "operations": [{"operation": e.operation, "where": str(e.where), "reason": e.reason,
                            "tasks": list(e.tasks)} for e in model.report]}


def _text(model: Model, output: Path) -> Iterator[str]:
    tasks = sum(len(p.tasks) for p in model.programs)
    size = sum(len(p.constants) for p in model.programs)
    yield (f"{output}: {plural(tasks, 'task')} for {model.target}, {byte_text(size)} of constants, "
           f"{plural(len(model.host_operations), 'host operation')}")
    ports = [("input", port) for port in model.inputs] + [("output", port) for port in model.outputs]
    yield from table([(side, port.name, port.dtype, shape_text(port.shape)) for side, port in ports], indent="  ")
    yield from table([(e.where, e.operation.removeprefix(f"{e.where} "), _where(e)) for e in model.report], indent="  ")


def _where(entry: Any) -> str:
    tasks = f"task {entry.tasks[0]}" if len(entry.tasks) == 1 else f"tasks {entry.tasks[0]}..{entry.tasks[-1]}" \
        if entry.tasks else ""
    return ", ".join(part for part in (tasks, entry.reason) if part)
