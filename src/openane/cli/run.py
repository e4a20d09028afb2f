"""Run a model, a bundle or a program: .npy files (or seeded values) in, .npy files or a summary out.

FILE is told apart by its content; a model is compiled first. --check computes the same with the reference of every
operation in fp32 and prints the error of each output.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from openane.cli.arrays import Array, compare, gather, parse_input, parse_seed
from openane.cli.files import parse_shape
from openane.cli.output import as_json, plural, shape_text, table
from openane.cli.subject import Subject, open_subject
from openane.devices import DEFAULT, VARIABLE, open_device
from openane.devices.options import parts
from openane.errors import DeviceError

Document = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a model, a bundle or a program (.hwx, .anec)")
    parser.add_argument("--input", metavar="NAME=FILE.npy", type=parse_input, action="append", default=[],
                        help="array for an input; inputs without one get seeded values; may be repeated")
    parser.add_argument("--output-dir", metavar="DIR", type=Path, help="write every output to DIR/NAME.npy")
    parser.add_argument("--device", metavar="D", help="where to run (default: $ANE_DEVICE or simulator)")
    parser.add_argument("--record", metavar="T", type=Path,
                        help="write a trace of everything a Linux device's driver is asked and answers")
    parser.add_argument("--arithmetic", choices=("auto", "exact", "fast"),
                        help="how the simulator multiplies and accumulates (default: auto)")
    parser.add_argument("--check", action="store_true", help="compare with the model's reference in fp32")
    parser.add_argument("--seed", metavar="N", type=parse_seed, default=0, help="seed of drawn inputs (default: 0)")
    parser.add_argument("--target", metavar="CHIP", default="h13", help="what to compile a model for (default: h13)")
    parser.add_argument("--shape", metavar="NAME=1x3x224x224", type=parse_shape, action="append", default=[],
                        help="shape of an input the model leaves open; may be repeated")
    parser.add_argument("--allow-host", action="store_true",
                        help="compute on the host what the engine cannot take, instead of refusing the model")
    parser.add_argument("--no-cache", action="store_true", help="compile a model even if it was compiled before")
    parser.add_argument("--function", metavar="NAME",
                        help="which function to run (default: a bundle's first, a model's own)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Runs once and reports."""
    if options.output_dir is not None:
        options.output_dir.mkdir(parents=True, exist_ok=True)
    subject = open_subject(options.file, dict(options.shape), options)
    files = dict(options.input)
    inputs = gather(subject.inputs, files, options.seed)
    wanted = subject.reference(inputs) if options.check else {}
    name = device_name(options.device, options.arithmetic)
    if options.record is not None:
        name = recording(name, options.record)
    with open_device(name) as device:
        outputs, seconds, report = subject.run(device, inputs)
    document = {
        "file": str(options.file), "device": name, "tasks": subject.tasks, "programs": subject.programs,
        "engine_operations": subject.engine_operations, "host_operations": subject.host_operations,
        "wall_time": seconds,
        "inputs": {port.name: {"shape": list(port.shape), "dtype": str(port.dtype),
                               "file": str(files[port.name]) if port.name in files else None,
                               "seed": None if port.name in files else options.seed} for port in subject.inputs},
        "outputs": {name: _output(name, array, options.output_dir, wanted) for name, array in outputs.items()},
        "numeric": _numeric(report),
    }
    print(as_json(document) if options.json else "\n".join(_text(document, subject)))
    return 0


def device_name(device: str | None, arithmetic: str | None) -> str:
    """The device to open, the arithmetic asked for added to its options."""
    name = device or os.environ.get(VARIABLE) or DEFAULT
    return name if arithmetic is None else f"{name}{'&' if '?' in name else '?'}arithmetic={arithmetic}"


def recording(name: str, path: Path) -> str:
    """The device's name with a trace asked for. DeviceError for a device that has no driver to listen to."""
    if parts(name)[0] != "linux":
        raise DeviceError(f"--record listens to the Linux driver; {name!r} has none (linux:0, linux?driver=simulated)")
    return f"{name}{'&' if '?' in name else '?'}record={quote(str(path))}"


def _output(name: str, array: Array, folder: Path | None, wanted: Mapping[str, Array]) -> Document:
    """Writes one output where a folder is given, and describes it."""
    file = None
    if folder is not None:
        file = folder / f"{quote(name, safe=' @+,=')}.npy"
        np.save(file, array)
    finite = array[np.isfinite(array)]
    document: Document = {"shape": list(array.shape), "dtype": str(array.dtype), "file": str(file) if file else None,
                          "min": float(finite.min()) if finite.size else None,
                          "max": float(finite.max()) if finite.size else None,
                          "not_finite": int(array.size - finite.size)}
    if name in wanted:
        document["error"] = compare(array, wanted[name])
    return document


def _numeric(report: Any) -> Document:
    """What the device watched: arithmetic used, conversions, infinities and NaN per task."""
    return {"arithmetic": list(report.arithmetic), "conversions": list(report.conversions),
            "overflows": report.overflows, "nan_inputs": report.nan_inputs,
            "tasks": [{"task": t.index, "operation": t.operation, "arithmetic": t.arithmetic, "overflows": t.overflows,
                       "infinite_inputs": t.infinite_inputs, "nan_inputs": t.nan_inputs, "min": t.low, "max": t.high}
                      for t in report.tasks]}


def _text(document: Document, subject: Subject) -> Iterator[str]:
    numeric = document["numeric"]
    used = f", {' and '.join(numeric['arithmetic'])} arithmetic" if numeric["arithmetic"] else ""
    tasks, milliseconds = plural(document["tasks"], "task"), document["wall_time"] * 1e3
    if subject.programs != 1:
        tasks += f" in {plural(subject.programs, 'program')}"
    yield (f"{tasks} on {document['device']} in {milliseconds:.1f} ms{used}, "
           f"{plural(subject.host_operations, 'host operation')}")
    yield from table([("input", name, shape_text(port["shape"]), port["dtype"], port["file"] or f"seed {port['seed']}")
                      for name, port in document["inputs"].items()], indent="  ")
    yield from table([("output", name, shape_text(port["shape"]), port["dtype"],
                       port["file"] or f"{_number(port['min'])} .. {_number(port['max'])}")
                      for name, port in document["outputs"].items()], indent="  ")
    for note in numeric["conversions"]:
        yield f"  {note}"
    for task in numeric["tasks"]:
        if task["overflows"] or task["nan_inputs"]:
            yield (f"  task {task['task']} ({task['operation']}): infinite values stored {task['overflows']}, "
                   f"read {task['infinite_inputs']}; NaN read {task['nan_inputs']}")
    for name, port in document["outputs"].items():
        if "error" in port:
            error = port["error"]
            yield (f"  {name} against the reference: largest error {error['max_abs']:.3g} "
                   f"({error['max_rel']:.2%} of the largest value), relative L2 {error['l2_rel']:.3g}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
