"""Numeric health for a report: one run on the simulator with drawn inputs, every tensor beside float64.

What a tensor is said to be is what `ane run --check --arithmetic exact` says of it (cli.tensors): the compiler knows
where each tensor is, nothing is guessed from values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openane.checking.watched import WatchedSimulator
from openane.cli.arrays import THRESHOLD, Array, gather
from openane.cli.output import shape_text
from openane.cli.subject import Subject
from openane.cli.tensors import compared, known_tensors
from openane.compiler import Model
from openane.devices.simulator import SimulatorDevice
from openane.simulator import RunReport

ASKED = "--numbers"
TENSOR = ("tensor", "operation", "shape", "low", "high", "max_abs", "l2_rel", "own_l2_rel", "overflow", "beyond_fp16",
          "lost", "state", "why")
"""What the report has of a tensor, in order."""


def measured(opened: Subject, seed: int, arithmetic: str) -> dict[str, Any]:
    """What a report shows: `about`, `tasks` ([low, high, infinite stored, infinite read, NaN read, arithmetic] each),
    `columns` (`TENSOR`) and `tensors` (rows of them; errors None for what is not stored). Inputs are drawn from `seed`.
    Errors as for `known_tensors`."""
    inputs = gather(opened.inputs, {}, seed, tables=opened.tables)
    content = opened.content
    if isinstance(content, Model):
        rows, report = _checked(opened, content, inputs, arithmetic)
    else:
        with SimulatorDevice(content.chip, arithmetic) as device:
            outputs, _, report = opened.run(device, inputs)
        rows = [_output(name, array) for name, array in outputs.items()]
    about = (f"One run on the simulator, inputs drawn from seed {seed}, {' and '.join(report.arithmetic) or 'no'} "
             "arithmetic. Errors are against the model's reference in float64 on the same inputs, own errors against "
             "float64 from the tensors the engine stored before; a tensor inside a task is never stored and has none.")
    tasks = [[t.low, t.high, t.overflows, t.infinite_inputs, t.nan_inputs, t.arithmetic] for t in report.tasks]
    return {"about": about, "seed": seed, "threshold": THRESHOLD, "tasks": tasks, "columns": list(TENSOR),
            "tensors": [[row[name] for name in TENSOR] for row in rows]}


def _checked(opened: Subject, model: Model, inputs: Mapping[str, Array],
             arithmetic: str) -> tuple[list[dict[str, Any]], RunReport]:
    """Every tensor of a model beside its reference, and what the simulator reports."""
    known = known_tensors(opened, opened.host_operations > 0, ASKED)
    with WatchedSimulator(known, SimulatorDevice(model.target, arithmetic)) as device:
        _, _, report = opened.run(device, inputs)
    rows = compared(known, device.found(ASKED), inputs, THRESHOLD)
    return [row | {"shape": shape_text(row["shape"]), "state": _state(row), "why": _why(row)} for row in rows], report


def _state(row: Mapping[str, Any]) -> str:
    if not row["stored"]:
        return "on the host" if row["hosted"] else "inside a task"
    if row["overflow"]:
        return "overflows"
    return "agrees" if row["l2_rel"] <= THRESHOLD else "diverges"


def _why(row: Mapping[str, Any]) -> str:
    """What is to be said of a tensor that does not agree."""
    together = f"; made together with {', '.join(row['with'])}" if row["with"] else ""
    if row["overflow"]:
        return f"{row['reason']}{together}"
    if not row["stored"] or row["l2_rel"] <= THRESHOLD:
        return ""
    if not np.isfinite(row["own_l2_rel"]):
        return "its operands are infinite already"
    return "from the errors of its operands" if row["own_l2_rel"] <= THRESHOLD else f"arises here{together}"


def _output(name: str, array: Array) -> dict[str, Any]:
    """An output of a program that came without its model."""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array.reshape(-1)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return dict.fromkeys(TENSOR) | {"tensor": name, "operation": "output", "shape": shape_text(array.shape),
                                    "low": low, "high": high, "state": "not compared", "why": ""}
