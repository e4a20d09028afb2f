"""Hazards of precision for `ane explain`: what compiling found, and what a drawn sample shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from openane.cli.arrays import Array
from openane.cli.subject import Subject
from openane.compiler import Model
from openane.compiler.inspect.fp16_concerns import concerns, drawn_samples
from openane.devices import open_device
from openane.errors import AneError

UNSAMPLED = ("hazards of precision: only constants were looked at, the model takes too long for a drawn sample "
             "('ane profile --html R.html --numbers' runs one)")

Hazard = tuple[str, str, str]
"""(operation, what, remedy)."""
WRONG = 0.1
"""Relative L2 error from which an output is called wrong."""


def sampled(opened: Subject) -> bool:
    """Whether a model is evaluated on a sample."""
    return _samples(opened) is not None


def _samples(opened: Subject) -> Mapping[str, Array] | None:
    """What the compiler looked at, else what is drawn for a model that is quickly evaluated."""
    if opened.samples is not None or not isinstance(opened.content, Model):
        return opened.samples
    return drawn_samples(opened.content.graph)


def hazards(opened: Subject) -> list[Hazard]:
    """The concerns of a model's constants and, where there is a sample, of what it computes on that; and outputs that
    come out wrong when the compiled model runs on the simulator with it."""
    model = opened.content
    if not isinstance(model, Model):
        return []
    found = list(model.concerns)
    samples = _samples(opened)
    if samples is not None and opened.samples is None:
        known = {(each.operation, each.what) for each in found}
        found += [each for each in concerns(model.graph, samples) if (each.operation, each.what) not in known]
    said = [(each.operation, each.said, each.remedy) for each in found]
    return said if samples is None else [*said, *_wrong(opened, samples)]


def _wrong(opened: Subject, samples: Mapping[str, Array]) -> Iterator[Hazard]:
    """Outputs that differ from the reference by more than rounding; a model the simulator refuses says nothing."""
    try:
        wanted = opened.reference(samples)
        with open_device("simulator") as device:
            got = opened.run(device, samples)[0]
    except AneError:
        return
    for name, reference in wanted.items():
        if name not in got or reference.dtype.kind != "f":
            continue
        one, other = got[name].astype(np.float64), reference.astype(np.float64)
        if not np.isfinite(other).all() or not np.linalg.norm(other):
            continue
        error = float(np.linalg.norm(one - other) / np.linalg.norm(other)) if np.isfinite(one).all() else np.inf
        if error > WRONG:
            off = f"off by {error:.0%}" if np.isfinite(error) else "infinite"
            yield (f"output '{name}'", f"is {off} on a sample (simulator against fp32)",
                   "keep values well inside fp16, products above 2^-16, and differences larger than the last digit of "
                   "what they are taken of; 'ane profile --html R.html --numbers' shows where it begins")
