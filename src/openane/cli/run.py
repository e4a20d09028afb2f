"""Run a model, a bundle or a program: .npy files (or seeded values) in, .npy files or a summary out.

FILE is told apart by its content; a model is compiled first. --check computes the same with the reference of every
operation in fp32 and prints the error of each output; on the simulator with --arithmetic exact also of every tensor
between operations, against float64 (cli.tensors). The check fails, and the command with it, where an output is infinite
or NaN and its reference is not, and where its relative L2 error exceeds a threshold that is asked for.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from openane.cli.arrays import THRESHOLD, Array, ArrayPort, compare, gather, unlike
from openane.cli.device_name import SIMULATOR, device_chip, device_name
from openane.cli.files import parse_input
from openane.cli.numbers import real, whole
from openane.cli.output import say, say_json, shape_text
from openane.cli.outputs import require_folder
from openane.cli.subject import Subject, open_subject, subject_options
from openane.cli.summary import PortText, cache_lines, port_lines, report_option, said
from openane.devices import Device, open_device
from openane.devices.options import parts
from openane.errors import DeviceError
from openane.formats.files import write_atomically
from openane.graph import mil_type
from openane.ops.measured_inputs import BeyondRange, beyond_ranges
from openane.program import Program
from openane.record_classes import dataclass
from openane.simulator import RunReport
from openane.wording import line_text, plural

if TYPE_CHECKING:
    from openane.compiler import Model

Document = dict[str, Any]
EXACT = "exact"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--input", metavar="NAME=FILE.npy", type=parse_input, action="append", default=[],
                        help="array for an input; inputs without one get seeded values; may be repeated")
    parser.add_argument("--output-dir", metavar="DIR", type=Path, help="write every output to DIR/NAME.npy")
    parser.add_argument("--device", metavar="D", help="where to run (default: $ANE_DEVICE or simulator)")
    parser.add_argument("--record", metavar="T", type=Path,
                        help="write a trace of everything a Linux device's driver is asked and answers")
    parser.add_argument("--arithmetic", choices=("auto", "exact", "fast"),
                        help="how the simulator multiplies and accumulates (default: auto)")
    parser.add_argument("--check", action="store_true", help="compare with the model's reference in fp32; with "
                        "--arithmetic exact every tensor with float64")
    parser.add_argument("--threshold", metavar="E", type=real(0),
                        help="relative L2 error beyond which --check fails for an output, and says that a tensor "
                        f"diverges (default: outputs of any error pass, a tensor diverges beyond {THRESHOLD:g})")
    parser.add_argument("--seed", metavar="N", type=whole(0), default=0, help="seed of drawn inputs (default: 0)")
    subject_options(parser)
    report_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Runs once and reports."""
    if options.output_dir is not None:
        require_folder(options.output_dir)
    name = device_name(options.device, options.arithmetic)
    subject = open_subject(options, device_chip(name), recalls=True)
    files = dict(options.input)
    inputs = gather(subject.inputs, files, options.seed, subject.choice, subject.tables)
    wanted = subject.reference(inputs) if options.check else {}
    if options.record is not None:
        name = recording(name, options.record)
    found = _executed(subject, inputs, name, options)
    beyond = _beyond_ranges(subject, inputs)
    document: Document = {
        "file": str(options.file), "device": name, "target": subject.target, "executed": found.executed,
        "tasks": subject.tasks, "programs": subject.programs,
        "engine_operations": subject.engine_operations, "host_operations": subject.host_operations,
        "wall_time": found.seconds,
        "inputs": {port.name: _input(port, files.get(port.name), options.seed) for port in subject.inputs},
        "outputs": {name: _output(name, array, options.output_dir, wanted) for name, array in found.outputs.items()},
        "numeric": _numeric(found.report), "beyond_ranges": list(map(asdict, beyond)),
    }
    failures = [f"{line_text(name)}: {words}" for name in wanted
                if (words := _failure(document["outputs"][name], options.threshold))]
    if options.check:
        document["check"] = {"passed": not failures, "failures": failures, "threshold": options.threshold}
    if found.tensors is not None:
        document |= {"tensors": found.tensors, "threshold": _diverging(options)}
    say_json(document) if options.json else say("\n".join(_text(document, subject, options.report, beyond)))
    return 1 if failures else 0


def _beyond_ranges(subject: Subject, inputs: Mapping[str, Array]) -> list[BeyondRange]:
    """Inputs much larger than those a model's ranges were measured on."""
    return [] if isinstance(subject.content, Program) else beyond_ranges(subject.content.metadata, inputs)


@dataclass(frozen=True, slots=True)
class _Executed:
    """A run: what came out, the seconds it took, what the device watched, whether it took programs or the graph, and
    every tensor where they were kept."""

    outputs: dict[str, Array]
    seconds: float
    report: RunReport
    executed: str = "program"
    tensors: list[Document] | None = None


def _executed(subject: Subject, inputs: Mapping[str, Array], name: str, options: argparse.Namespace) -> _Executed:
    """The run on the device called `name`; on the simulator, where the arithmetic is exact and checked, with every
    tensor."""
    if options.check and options.arithmetic == EXACT and parts(name)[0] == SIMULATOR and options.record is None:
        outputs, seconds, report, rows = _with_tensors(subject, inputs, name, options)
        return _Executed(outputs, seconds, report, tensors=rows)
    with open_device(name) as device:
        if not options.no_cache:
            _remembering(device)
        outputs, seconds, report = subject.run(device, inputs)
        return _Executed(outputs, seconds, report, "program" if "program" in device.info.takes else "graph")


def _remembering(device: Device) -> None:
    """Lets a simulator ask of a program what it has passed before. No other device may."""
    from openane.devices.simulator import SimulatorDevice

    if isinstance(device, SimulatorDevice):
        from openane.cli.passed_programs import PassedPrograms

        device.passed = PassedPrograms()


def _input(port: ArrayPort, file: Path | None, seed: int) -> Document:
    """Where an input's values come from."""
    return {"shape": list(port.shape), "dtype": str(port.dtype), "file": None if file is None else str(file),
            "seed": seed if file is None else None}


def _with_tensors(subject: Subject, inputs: Mapping[str, Array], name: str,
                  options: argparse.Namespace) -> tuple[dict[str, Array], float, RunReport, list[Document]]:
    """A run on the simulator that keeps every tensor: outputs, seconds, report, and the tensors beside float64."""
    from openane.checking.watched import WatchedSimulator
    from openane.cli.tensors import EXACT_CHECK, compared, known_tensors
    from openane.devices.simulator import SimulatorDevice

    known = known_tensors(subject, subject.host_operations > 0 or options.allow_host)
    with open_device(name) as plain:  # says what is wrong with the name
        assert isinstance(plain, SimulatorDevice)
        device = WatchedSimulator(known, plain)
    with device:
        outputs, seconds, report = subject.run(device, inputs)
    return outputs, seconds, report, compared(known, device.found(EXACT_CHECK), inputs, _diverging(options))


def recording(name: str, path: Path) -> str:
    """The device's name with a trace asked for. DeviceError for a device that has no driver to listen to."""
    if parts(name)[0] != "linux":
        raise DeviceError(f"--record listens to the Linux driver; {name!r} has none (linux:0, linux?driver=simulated)")
    return f"{name}{'&' if '?' in name else '?'}record={quote(str(path))}"


def _output(name: str, array: Array, folder: Path | None, wanted: Mapping[str, Array]) -> Document:
    """Writes one output where a folder is given, and describes it."""
    file = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{quote(name, safe=' @+,=')}.npy"
        written = io.BytesIO()
        np.save(written, array)
        write_atomically(file, written.getvalue())
    finite = array[np.isfinite(array)]
    document: Document = {"shape": list(array.shape), "dtype": str(array.dtype), "file": str(file) if file else None,
                          "min": float(finite.min()) if finite.size else None,
                          "max": float(finite.max()) if finite.size else None,
                          "not_finite": int(array.size - finite.size)}
    if name in wanted:
        lost, other = unlike(array, wanted[name])
        document["error"] = {**compare(array, wanted[name]), "not_finite": lost, "otherwise_unlike": other}
    return document


def _diverging(options: argparse.Namespace) -> float:
    """The relative L2 error beyond which a tensor diverges."""
    return THRESHOLD if options.threshold is None else float(options.threshold)


def _failure(output: Document, threshold: float | None) -> str:
    """Why an output does not pass the check; empty when it does."""
    error, size = output["error"], prod(output["shape"])
    if error["not_finite"]:
        return f"{error['not_finite']} of {plural(size, 'value')} infinite or NaN where the reference has numbers"
    if error["otherwise_unlike"]:
        return f"{error['otherwise_unlike']} of {plural(size, 'value')} finite where the reference is infinite or NaN"
    if threshold is None or error["l2_rel"] <= threshold:
        return ""
    return f"relative L2 {error['l2_rel']:.3g} exceeds {threshold:g}"


def _numeric(report: Any) -> Document:
    """What the device watched: arithmetic used, conversions, infinities and NaN per task."""
    return {"arithmetic": list(report.arithmetic), "forms": list(report.forms), "conversions": list(report.conversions),
            "overflows": report.overflows, "nan_inputs": report.nan_inputs,
            "tasks": [{"task": t.index, "operation": t.operation, "arithmetic": t.arithmetic, "overflows": t.overflows,
                       "infinite_inputs": t.infinite_inputs, "nan_inputs": t.nan_inputs, "min": t.low, "max": t.high}
                      for t in report.tasks]}


def _text(document: Document, subject: Subject, report: bool, beyond: Sequence[BeyondRange]) -> Iterator[str]:
    yield _headline(document, subject)
    yield from cache_lines(subject.from_cache)
    if subject.left and document["executed"] == "program":
        yield f"  the program for {subject.target}; --target takes that for {', '.join(subject.left)}"
    yield from port_lines(_ports(document), report)
    yield from (f"  {line_text(name)} against the reference: {_error(port)}"
                for name, port in document["outputs"].items() if "error" in port)
    content = subject.content
    model = None if isinstance(content, Program) or document["executed"] != "program" else content
    yield from said(model, report, [*map(str, beyond), *_infinities(document, model)])
    if "tensors" in document:
        from openane.cli.tensors import lines as tensor_lines

        yield from tensor_lines(document["tensors"], document["threshold"])
    yield from (f"  check failed: {failure}" for failure in document.get("check", {}).get("failures", ()))


def _ports(document: Document) -> dict[str, list[PortText]]:
    """Inputs with where their values come from and how they were converted, outputs with where they went."""
    notes = document["numeric"]["conversions"]

    def text(name: str, port: Document, note: str) -> PortText:
        return name, mil_type(np.dtype(port["dtype"])), shape_text(port["shape"]), note

    def source(name: str, port: Document) -> str:
        own = [note.removeprefix(f"{name}: ") for note in notes if note.startswith(f"{name}: ")]
        return "; by the host: ".join([port["file"] or f"seed {port['seed']}", *map(line_text, own)])

    def target(port: Document) -> str:
        return str(port["file"] or f"{_number(port['min'])} .. {_number(port['max'])}")

    return {"input": [text(name, port, source(name, port)) for name, port in document["inputs"].items()],
            "output": [text(name, port, target(port)) for name, port in document["outputs"].items()]}


def _infinities(document: Document, model: Model | None) -> list[str]:
    """The tasks that stored infinities or read NaN, with the operations of a model they belong to."""
    names = {} if model is None else _operations(model)
    found = [_unlike_numbers(task, names) for task in document["numeric"]["tasks"]
             if task["overflows"] or task["nan_inputs"]]
    return [*found, "ane check says which operation made the first of them, why, and what would help"] \
        if found and model is not None else found


def _operations(model: Model) -> dict[int, str]:
    """The model's operation of every task of a run, by the task's number in it."""
    from openane.compiler import ProgramStep

    found: dict[int, str] = {}
    start = 0
    for step in model.steps:
        if isinstance(step, ProgramStep):
            found |= {start + task: entry.operation for entry in model.report if entry.program == step.program
                      for task in entry.tasks}
            start += len(model.programs[step.program].tasks)
    return found


def _unlike_numbers(task: Document, names: Mapping[int, str]) -> str:
    """What a task stored and read that is no number."""
    from openane.checking.names import short

    name = names.get(task["task"])
    place = f"task {task['task']} ({task['operation']})"
    named = place if name is None else f"{line_text(short(name))}, {place}"
    return (f"{named}: infinite values stored {task['overflows']}, read {task['infinite_inputs']}; "
            f"NaN read {task['nan_inputs']}")


def _error(output: Document) -> str:
    error = output["error"]
    if error["not_finite"] or error["otherwise_unlike"]:
        return _failure(output, 0.0)
    return (f"largest error {error['max_abs']:.3g} ({error['max_rel']:.2%} of the largest value), relative L2 "
            f"{error['l2_rel']:.3g}")


def _headline(document: Document, subject: Subject) -> str:
    """What ran where. A device that compiles graphs itself does not run the tasks of our programs."""
    where = f"on {document['device']} in {document['wall_time'] * 1e3:.1f} ms"
    if document["executed"] == "graph":
        return f"the graph, compiled by the device, {where}"
    numeric, tasks = document["numeric"], plural(document["tasks"], "task")
    used = f", {' and '.join(numeric['arithmetic'])} arithmetic" if numeric["arithmetic"] else ""
    if subject.programs != 1:
        tasks += f" in {plural(subject.programs, 'program')}"
    return f"{tasks} {where}{used}, {plural(subject.host_operations, 'host operation')}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
