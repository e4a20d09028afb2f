"""Checks zero-skipping coefficient streams by following the lengths that they state themselves.

For each block of lanes a stream has one bias halfword per lane (where there are biases), the length of the body in
bytes, and the body. The body has, for each input channel, the slots of `chips.coefficients.SparseFormat`: a mask of
several values, followed by as many halfwords as it announces. A body must hold exactly its masks and what they
announce, and no value where the kernel has no tap.
"""

from __future__ import annotations

from collections.abc import Sequence

from openane.chips.coefficients import CoefficientFormat
from openane.engine import Coefficients, Geometry
from openane.errors import ProgramError
from openane.program.model import Constants
from openane.program.sparse_bodies import BodyForm, Follower, SparseBody, sparse_bodies


def sparse_defect(geometry: Geometry, kernel: tuple[int, int], coefficients: Coefficients, constants: Constants,
                  form: CoefficientFormat, follow: Follower | None = None) -> str:
    """What is wrong with streams of weights that zeros are left out of; empty when nothing is. The work is bounded by
    the streams' size, and done by `follow` where there is one."""
    assert coefficients.weights is not None
    streams = coefficients.weights.streams
    if min(kernel) < 1 or geometry.weights > streams.total * form.sparse.values:
        return f"{geometry} in {streams.total} bytes"
    held = BodyForm(form.sparse, kernel, geometry.rows // (kernel[0] * kernel[1]))
    try:
        bodies = list(sparse_bodies(geometry, coefficients, constants, form))
        if follow is not None and follow(held, bodies, constants):
            return ""
        allowed = {lanes: held.allowed(lanes) for lanes in {body.lanes for body in bodies}}
        for body in bodies:
            _check(held, body, constants, allowed[body.lanes])
    except ProgramError as error:
        return str(error)
    return ""


def _check(form: BodyForm, body: SparseBody, constants: Constants, allowed: Sequence[int]) -> None:
    """ProgramError where a body is not as it must be; `allowed` are the bits that its masks may have."""
    name = f"core {body.core}"
    data, found = bytes(constants[body.start:body.end]), 0
    try:
        for rows in form.form.rows(data, len(allowed)):
            found += rows.count
            for place, bits in zip(rows.places, allowed, strict=True):
                at = rows.start + place
                mask = int.from_bytes(data[at:at + form.form.mask], "little")
                if mask & ~bits:
                    raise ProgramError(f"mask {mask:#x} names a lane or a tap that does not exist")
    except ProgramError as error:
        raise ProgramError(f"{name}: {error}") from None
    if found != form.inputs:
        raise ProgramError(f"{name}: a body with masks of {found} input channels where there are {form.inputs}")
