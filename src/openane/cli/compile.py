"""Compile a model into a program for the engine, and say where its operations will run.

A large model's operations are counted by kind, --report lists every one. OUT ending in .hwx or .anec is one engine
program, NAME.ane a bundle: a folder that also holds the model.

For several targets (--target all, or --target m1,m4) a table shows what each makes of the model, and one bundle holds
the programs of all of them: a device takes its own. A target that refuses the model is a row with the reason; the
command fails only where no target takes it.
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openane.chips import DEFAULT_TARGET
from openane.chips.machines import named_targets
from openane.cli.apple import compile_elsewhere, parse_mask
from openane.cli.compile_targets import require_one, require_several, run_several
from openane.cli.directories import directory_graphs, directory_lines, is_directory
from openane.cli.files import container, open_file
from openane.cli.model_options import (
    HOST_DEFAULT,
    OPTIONS,
    TARGETS,
    compilation,
    in_cache,
    model_options,
    reading,
    samples_of,
)
from openane.cli.output import say, say_json
from openane.cli.shape_costs import cost_lines, costs
from openane.cli.shapes import refuse_padding, several_shapes, shaped_model
from openane.cli.summary import compiled_lines, report_option
from openane.errors import UnsupportedError
from openane.formats.files import write_atomically

if TYPE_CHECKING:
    from openane.compiler import Model
    from openane.graph import Graph


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("model", metavar="MODEL", type=Path,
                        help="the model: .onnx, .mlpackage, .mlmodel, .mlmodelc, .mil, net.plist, espresso, .pt2, "
                             ".mlir, or a directory that save_pretrained wrote")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path,
                        help="where to write it (default: MODEL's name with .ane, a bundle, in this folder)")
    parser.add_argument("--layout", choices=("macos26", "compat"), default="macos26",
                        help="form of a .hwx: as Apple's current compiler writes it, or as the Linux tools read it")
    parser.add_argument("--header", choices=("0x1000", "0x800"), default="0x1000",
                        help="size of an .anec's header: what anecc writes, or what libane reads")
    parser.add_argument("--function", metavar="NAME", action="append", default=[],
                        help="which function of a model that has several (default: its default, or main); repeated, "
                             "all of them go into one bundle and share states and weights")
    parser.add_argument("--dump", metavar="DIR", type=Path,
                        help="also write the graph after each pass, the engine's operations before and after they "
                             "get their places in L2 and memory, weight layout, tiling and the task list")
    parser.add_argument("--compiler", metavar="COMPILER", default="openane",
                        help="openane, or apple: Apple's own (macOS), to compare; it writes one .hwx. "
                             "apple?runtime=simulated asks a stand-in")
    parser.add_argument("--debug-mask", metavar="MASK", type=parse_mask,
                        help="which intermediate files Apple's compiler writes beside OUT, such as 0x7fffffff: all")
    parser.add_argument("--page", "--html", metavar="FILE.html", type=Path,
                        help="with several targets: write what each makes of the model, and where every operation "
                             "runs, as a page for browsers: one file that fetches nothing")
    parser.add_argument("--target", **TARGETS)
    model_options(parser, *(name for name in OPTIONS if name != "--target"))
    report_option(parser)
    parser.add_argument("--json", action="store_true", help="print what became of every operation as JSON")


def run(options: argparse.Namespace) -> int:
    """Compiles, writes and reports."""
    options.targets = named_targets(options.target or DEFAULT_TARGET)
    several, options.target = len(options.targets) > 1, options.targets[0]
    output = options.output or Path(f"{options.model.stem}.ane")
    if not output.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(output.parent))
    if container(options.model) is not None:
        open_file(options.model)  # a damaged program is that first
        raise UnsupportedError(str(options.model), "this is compiled already",
                               remedy=f"run it: ane run {options.model}, or look into it: ane info {options.model}")
    (require_several(options, output) if several else require_one(options))
    graphs = list(_graphs(options))
    if options.compiler != "openane":
        return compile_elsewhere(graphs, options, output)
    if several:
        samples_of(graphs[0], options)  # an input that is none is that for every target
        return run_several(options, output, lambda target: _compiled(graphs, _with_target(options, target)))
    model, from_cache = _for_file(output, graphs, options)
    model.save(output, layout=options.layout, header=int(options.header, 16))
    if options.json:
        say_json(document(model, output))
    else:
        say("\n".join(_lines(model, output, from_cache, options)), file=sys.stderr)
    return 0


def _lines(model: Model, output: Path, from_cache: bool, options: argparse.Namespace) -> Iterator[str]:
    """What became of every function, what shapes cost, and what a directory's family leaves to the host."""
    for name, function in model.functions.items():
        place = str(output) if len(model.functions) == 1 else f"{output}, function {name}"
        yield from compiled_lines(function, place, from_cache, options.report)
    if model.padding is not None:
        yield from cost_lines(model)
    if is_directory(options.model):
        yield from directory_lines(options.model)


def _graphs(options: argparse.Namespace) -> Sequence[Graph]:
    """The model as a graph for each of its shapes, or of the functions that are named."""
    from openane.importers import load_graph
    from openane.importers.alternatives import load_shapes

    if is_directory(options.model):
        shapes, options.shape = dict(options.shape), []  # lengths become functions, and inputs have names of their own
        return directory_graphs(options.model, shapes, options.function)
    functions = options.function or [None]
    if not several_shapes(options):
        refuse_padding(options)
        return [load_graph(options.model, function=name, **reading(options)) for name in functions]
    if len(functions) > 1:
        raise UnsupportedError("--shape", "a model has several shapes or several functions", found=options.function,
                               remedy="name one --function")
    return load_shapes(options.model, function=functions[0], **reading(options))


def _with_target(options: argparse.Namespace, target: str) -> argparse.Namespace:
    """The options for one of several targets, which has a folder of its own in --dump."""
    dump = None if options.dump is None else options.dump / target
    return argparse.Namespace(**vars(options) | {"target": target, "dump": dump})


def _compiled(graphs: Sequence[Graph], options: argparse.Namespace) -> tuple[Model, bool]:
    """The model of one or several functions, and whether the cache had it."""
    return _functions(graphs, options) if len(graphs) > 1 else _one(graphs[0], options)


def _for_file(output: Path, graphs: Sequence[Graph], options: argparse.Namespace) -> tuple[Model, bool]:
    """As `_compiled`. A file of one program has no room for the host: what the host only rounds better is left to the
    engine, unless the options say what the host computes. Others are compiled as for a bundle, whose entry in the cache
    they share."""
    from openane.compiler.partition.rounded_inputs import may_round_inputs

    if output.suffix in (".hwx", ".anec") and options.allow_host == HOST_DEFAULT and any(map(may_round_inputs, graphs)):
        with suppress(UnsupportedError):
            return _compiled(graphs, argparse.Namespace(**vars(options) | {"allow_host": False}))
    return _compiled(graphs, options)


def _one(graph: Graph, options: argparse.Namespace) -> tuple[Model, bool]:
    """The compiled graph, and whether the cache had it; what happens on the way goes to --dump."""
    from openane.compiler import compile

    how = compilation(graph, options, options.dump is None)
    if options.dump is None:
        return compile(graph, **how.arguments), how.from_cache
    options.dump.mkdir(parents=True, exist_ok=True)
    model = compile(graph, **how.arguments,
                    watch=lambda name, text: write_atomically(options.dump / name, text.encode()))
    dump(model, options.dump)
    return model, False


def _functions(graphs: Sequence[Graph], options: argparse.Namespace) -> tuple[Model, bool]:
    """The functions, or shapes, as one model, and whether the cache had them all."""
    from openane.compiler import compile_functions
    from openane.ops.optimisation import with_level

    if options.dump is not None or options.sample:
        raise UnsupportedError("--function", "--dump and --sample look at one function", found=len(graphs),
                               remedy="compile that function alone")
    known = not options.no_cache and all(in_cache(graph, options.target, options) for graph in graphs)
    if several_shapes(options):
        return shaped_model(graphs, options, options.target), known
    graphs = [with_level(graph, options.optimise) for graph in graphs]
    return compile_functions(graphs, options.target, options.allow_host, not options.no_cache, options.precision), known


def dump(model: Model, folder: Path) -> None:
    """Writes the weights of the source graph and every program's disassembly into `folder`."""
    from openane.formats import write_hwx
    from openane.formats.listing import disassemble_bytes, save_listing
    from openane.graph.mil import print_mil

    _, weights = print_mil(model.graph)
    if weights:
        (folder / "weights").mkdir(exist_ok=True)
        write_atomically(folder / "weights" / "weight.bin", weights)
    for number, program in enumerate(model.programs):
        name = f"40-program{number}.ane.s"
        save_listing(disassemble_bytes(write_hwx(program), name), folder / name)


def document(model: Model, output: Path) -> dict[str, Any]:
    """The compilation as plain data: ports, task count, and where each operation runs and why."""
    def ports(side: Any) -> list[dict[str, Any]]:
        return [{"name": p.name, "dtype": p.dtype, "shape": list(p.shape)} for p in side]

    return {"file": str(output), "target": model.target, "inputs": ports(model.inputs), "outputs": ports(model.outputs),
            "tasks": sum(len(p.tasks) for p in model.programs),
            "constant_bytes": sum(len(p.constants) for p in model.programs),
            "programs": len(model.programs), "host_operations": len(model.host_operations),
            **({} if model.padding is None else {"padding": dict(model.padding),
                                                "shapes": [asdict(cost) for cost in costs(model)]}),
            "states": [{"name": s.name, "dtype": s.port.dtype, "shape": list(s.port.shape)} for s in model.states],
            "concerns": [asdict(concern) for concern in model.concerns],
            "operations": [{"operation": e.operation, "where": str(e.where), "reason": e.reason,
                            "tasks": list(e.tasks), "program": e.program} for e in model.report]}
