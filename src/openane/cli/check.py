"""Say which operation of a model loses its digits or makes infinities on the engine, why, and what would help.

    ane check model.onnx
    ane check model.onnx --sample image=image.npy --precision safe --page check.html

The compiled model runs in the simulator, with the engine's arithmetic bit by bit, beside the same graph in fp32. The
exit status is 1 where an output is infinite, or more than 1 % off and more than one step of its quantisation.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from openane.chips.machines import target as generation_of
from openane.cli.directories import is_directory
from openane.cli.files import container, open_file
from openane.cli.model_options import (
    OPTIONS,
    chosen_target,
    given_samples,
    model_options,
    reading,
    refuse_for_compiled,
)
from openane.cli.output import say, say_json
from openane.cli.shapes import require_one_shape
from openane.errors import UnsupportedError
from openane.formats.files import write_atomically

if TYPE_CHECKING:
    from openane.compiler import Model
    from openane.graph import Graph


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="the model, as for ane compile, or its bundle (.ane)")
    parser.add_argument("--function", metavar="NAME", help="which function of a model that has several")
    model_options(parser, "--target", "--shape", "--value", "--sample", "--precision", "--allow-host", "--on-host",
                  "--limit")
    parser.add_argument("--all", action="store_true", help="show every operation")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--page", "--html", metavar="FILE.html", type=Path,
                        help="also write everything as a page for browsers: one file that fetches nothing")


def run(options: argparse.Namespace) -> int:
    """Checks and reports."""
    from openane.checking import check, check_page, document, lines

    require_one_shape(options)
    subject = _subject(options)
    graph = subject.graph if hasattr(subject, "graph") else subject
    found = check(subject, given_samples(graph, options) or None, chosen_target(options), options.allow_host,
                  options.precision)
    if options.page is not None:
        write_atomically(options.page, check_page(found).encode())
    say_json(document(found)) if options.json else say("\n".join(lines(found, options.all)))
    return 0 if found.right else 1


def _subject(options: argparse.Namespace) -> Graph | Model:
    """The model, or the function of a bundle that is asked for. UnsupportedError for what has no model."""
    path: Path = options.model
    if is_directory(path):
        raise UnsupportedError("ane check", "a language model is several programs that run token by token",
                               found=str(path), remedy="check an ONNX, .mlpackage or .pt2 export of it")
    if container(path) in ("hwx", "anec"):
        open_file(path)  # a damaged program is that first
        raise UnsupportedError("ane check", "a compiled program does not hold the model it was made from",
                               found=str(path), remedy="check the model itself or its bundle (.ane)")
    found = open_file(path, function=options.function, **reading(options))
    return _function(found, options) if hasattr(found, "functions") else found  # type: ignore


def _function(bundle: Model, options: argparse.Namespace) -> Model:
    """The function of a bundle that is asked for, compiled for the target that is."""
    given = argparse.Namespace(**vars(options) | {"pad": [], "sample": [],  # samples have no part in compiling
                                                  "optimise": OPTIONS["--optimise"]["default"]})
    refuse_for_compiled(options.model, given, list(bundle.targets))
    own = bundle if options.target is None else bundle.for_target(generation_of(options.target).name)
    if options.function is None and not own.others:
        return own
    if options.function not in own.functions:
        raise UnsupportedError(f"--function {options.function or ''}".strip(), "one function is checked",
                               found=options.function or "none", limit=", ".join(own.functions))
    return own.functions[options.function].with_functions(())
