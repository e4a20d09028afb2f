"""Store a model's weights in fewer bits, and say what that costs and saves, layer by layer.

    ane quantize model.onnx -o model.mlpackage --form int8
    ane quantize model.onnx -o small.onnx                        ONNX QDQ: int8 alone
    ane quantize model.mlpackage -o small.ane --form auto --max-error 0.01 --sample samples/

OUT ending in .mlpackage is a Core ML package, .mil MIL text with its weights beside it, .onnx ONNX QDQ (from an ONNX
model), .safetensors the weights alone; .ane, .hwx and .anec are compiled. All but .safetensors are read by ane compile
and ane run.

Errors are relative (root of squared differences by that of values), of the weights, of each layer's results and of the
outputs, on samples that are given, or drawn. A form makes the model's file smaller; what the engine reads is smaller
only where its bytes in the engine's streams are known: the report has both.
"""

from __future__ import annotations

import argparse
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openane.cli.files import container, open_file
from openane.cli.model_options import chosen_target, compiled_already, given_samples, model_options, reading
from openane.cli.numbers import real, whole
from openane.cli.output import say, say_json, shape_text, table, wrapped
from openane.cli.progress import bar
from openane.cli.shapes import require_one_shape
from openane.errors import AneError
from openane.wording import byte_text, plural

if TYPE_CHECKING:
    from openane.compiler import Model
    from openane.graph import Graph
    from openane.quantization import Quantized
    from openane.quantization.modelled import Modelled

FORMS = ("int8", "int8-blocks", "int8-offsets", "int8-columns", "palette4", "palette6", "sparse", "auto")
MOST_LINES = 24


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="the model, as for ane compile")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path,
                        help="where to write it: .mlpackage, .mil, .onnx, .safetensors (the weights alone), .ane, .hwx "
                             "or .anec (default: nothing is written)")
    parser.add_argument("--form", choices=FORMS, default="int8",
                        help="8 bits and a scale per channel, or per channel and --block inputs, without or with an "
                             "offset, or one per channel and one per input; a palette of 16 or 64 numbers; without "
                             "zeros; or auto, a form for each layer (default: int8)")
    parser.add_argument("--max-error", metavar="E", type=real(0),
                        help="choose layers, and with auto forms, such that the outputs' error stays within E "
                             "(default: every layer; auto: 0.01)")
    parser.add_argument("--zeros", metavar="SHARE", type=real(0, 1, below=True), default=0.5,
                        help="with --form sparse: the share of each weight's numbers that is made 0, the smallest "
                             "first (default: 0.5)")
    parser.add_argument("--block", metavar="N", type=whole(2), default=32,
                        help="with --form int8-blocks, int8-offsets or auto: how many inputs share a scale "
                             "(default: 32)")
    parser.add_argument("--least", metavar="N", type=whole(1), default=2048,
                        help="leave weights of fewer than N numbers as they are (default: 2048)")
    parser.add_argument("--function", metavar="NAME", help="which function of a model that has several")
    parser.add_argument("--weights-only", action="store_true",
                        help="do not run the model: say nothing of the errors of results")
    parser.add_argument("--activations", choices=("fp16", "int8"), default="fp16",
                        help="int8 is refused, with what is known of it")
    parser.add_argument("--nearest", action="store_true",
                        help="round every number to the nearest, not such that results on the samples are near")
    parser.add_argument("--no-time", action="store_true",
                        help="do not compile the model before and after for what the engine reads and how long it "
                             "takes")
    model_options(parser, "--target", "--shape", "--value", "--sample", "--allow-host", "--on-host", "--limit",
                  "--no-cache")
    parser.add_argument("--all", action="store_true", help="show every layer")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Compresses, writes and reports."""
    from openane.quantization import quantize
    from openane.quantization.files import COMPILED

    _check(options)
    graph = _graph(options)
    samples = None if not options.sample else given_samples(graph, options)
    target = chosen_target(options)
    writes_onnx = options.output is not None and options.output.suffix == ".onnx"
    with bar("rounding") as told:
        found = quantize(graph, options.form, max_error=options.max_error, target=target, zeros=options.zeros,
                         block=options.block, samples=[] if options.weights_only else samples, least=options.least,
                         activations=options.activations, calibrate=not options.nearest, biases=not writes_onnx,
                         told=told)
    compiled: tuple[Modelled, Modelled] | None = None
    left: tuple[str, ...] = ()
    reason = ""
    if options.output is not None and options.output.suffix in COMPILED:
        _compiled(found.graph, options, target).save(options.output)
    elif options.output is not None:
        left = _save(found, options)
    if not options.no_time:
        try:
            compiled = _modelled(found, options, target)
        except AneError as error:
            reason = str(error).splitlines()[0]
    if options.json:
        say_json(document(found, options.output, compiled, reason, left))
    else:
        say("\n".join(_lines(found, options, compiled, reason, left)))
    return 0


def _check(options: argparse.Namespace) -> None:
    """Errors for what cannot be, before a large model is read."""
    from openane.quantization.files import require_suffix
    from openane.quantization.onnx_qdq import refused

    require_one_shape(options)
    if container(options.model) is not None:
        open_file(options.model)  # a damaged program is that first
        raise compiled_already(options.model, "ane quantize")
    if options.output is None:
        return
    require_suffix(options.output)
    if not options.output.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(options.output.parent))
    if options.output.suffix == ".onnx":
        if options.form == "auto":
            options.form, options.max_error = "int8", 0.01 if options.max_error is None else options.max_error
        if options.form != "int8":
            raise refused(options.form)


def _graph(options: argparse.Namespace) -> Graph:
    return open_file(  # type: ignore[return-value]
        options.model, function=options.function, **reading(options))


def _save(found: Quantized, options: argparse.Namespace) -> tuple[str, ...]:
    from openane.quantization.files import save_quantized

    return save_quantized(found, options.output, options.model)


def _compiled(graph: Graph, options: argparse.Namespace, target: str) -> Model:
    from openane.compiler import compile

    return compile(graph, target, options.allow_host, cache=not options.no_cache)


def _modelled(found: Quantized, options: argparse.Namespace, target: str) -> tuple[Modelled, Modelled]:
    from openane.quantization.modelled import modelled

    before, after = (modelled(_compiled(graph, options, target)) for graph in (found.source, found.graph))
    return before, after


def _lines(found: Quantized, options: argparse.Namespace, compiled: tuple[Modelled, Modelled] | None, reason: str,
           left: tuple[str, ...]) -> Iterator[str]:
    changed = sum(layer.form is not None for layer in found.layers)
    place = "" if options.output is None else f"{options.output}: "
    yield (f"{place}{changed} of {plural(len(found.layers), 'weight')} of {options.least} numbers or more in "
           f"{' and '.join(found.forms) or 'no other form'}")
    yield f"constants   {byte_text(found.before)} -> {byte_text(found.after)} in the model's file"
    yield from _error_lines(found)
    if compiled is not None:
        yield from _engine_lines(*compiled)
    elif reason:
        yield from wrapped(f"engine      not compiled: {reason}", "            ")
    for form in found.forms:
        yield from wrapped(f"{form:<11} {found.written(form)}; {found.elsewhere(form)}", "            ")
    for name in left:
        yield f"kept        {name}: its weight is no constant of the ONNX model; above it is counted as int8"
    shown = found.layers if options.all else sorted(found.layers, key=lambda layer: -layer.before)[:MOST_LINES]
    if len(shown) < len(found.layers):
        yield f"the {len(shown)} largest of {len(found.layers)} (--all shows every one):"
    heading = ("layer", "operation", "shape", "form", "bytes", "now", "weight error", "result error")
    yield from table([(layer.name, layer.op, shape_text(layer.shape), layer.form or "as it is", layer.before,
                       layer.after, _error(layer.weight_error), _error(layer.result_error)) for layer in shown],
                     heading=heading, indent="  ")


def _error_lines(found: Quantized) -> Iterator[str]:
    which = {"given": "on the samples given", "drawn": "on a drawn sample"}.get(found.samples)
    if which is None:
        yield "error       of the outputs: not measured"
    for name, error in found.errors.items():
        yield f"error       {error:.2%} of output {name} {which}"


def _error(error: float | None) -> str:
    return "-" if error is None else f"{error:.2%}"


def _engine_lines(before: Modelled, after: Modelled) -> Iterator[str]:
    zeros = f", {plural(after.without_zeros, 'task')} of {after.tasks} without zeros" if after.without_zeros else ""
    yield (f"engine      reads {byte_text(before.fetched)} -> {byte_text(after.fetched)} of weights for an inference"
           f"{zeros}")
    yield (f"time        {1e3 * before.seconds:.3f} -> {1e3 * after.seconds:.3f} ms for an inference on {after.chip} "
           f"({after.kind})")


def document(found: Quantized, output: Path | None, compiled: tuple[Modelled, Modelled] | None, reason: str,
             left: tuple[str, ...]) -> dict[str, Any]:
    """The result as plain data."""
    layers = [{"name": layer.name, "operation": layer.op, "source": layer.source, "shape": list(layer.shape),
               "form": layer.form, "weight_error": layer.weight_error, "result_error": layer.result_error,
               "bytes_before": layer.before, "bytes_after": layer.after} for layer in found.layers]
    forms = [{"form": form, "written": found.written(form), "streamed_by_engine": found.streamed(form)}
             for form in found.forms]
    engine = None if compiled is None else {
        which: {"constant_bytes": each.constants, "fetched_bytes": each.fetched, "tasks_with_weights": each.tasks,
                "tasks_without_zeros": each.without_zeros, "seconds": each.seconds, "chip": each.chip,
                "kind": each.kind} for which, each in zip(("before", "after"), compiled, strict=True)}
    return {"file": None if output is None else str(output), "target": found.target, "samples": found.samples,
            "errors": dict(found.errors), "bytes_before": found.before, "bytes_after": found.after, "forms": forms,
            "engine": engine, "not_compiled": reason, "kept": list(left), "layers": layers}


