"""Coefficients where a table has a stream of its own (from H14 on): fields of the kernel DMA.

Streams of weights and biases lie relative to a section, one for each core; the table is read once for all of them. The
names are those of H15, where the table's stream has registers of its own.
"""

from __future__ import annotations

from openane.chips.emit.policy import Policy
from openane.engine import Coefficients, CoefficientSection, Packing
from openane.errors import ProgramError
from openane.registers import Fields

SECTION, TABLE = "KernelDMA.CoeffSection.Addr", "KernelDMA.TableBase.Addr"


def streamed_section(coefficients: Coefficients) -> CoefficientSection | None:
    """The section of weights and biases. ProgramError where they lie apart."""
    found = [part for part in (coefficients.weights, coefficients.bias) if part is not None]
    if len(found) == 2 and found[0] != found[1]:
        raise ProgramError(f"a core reads the weights and biases of a task from one stream, not from {coefficients}")
    return found[0] if found else None


def section_places(coefficients: Coefficients) -> list[tuple[str, int]]:
    """The fields that say where sections lie, and their values in bytes."""
    section, table = streamed_section(coefficients), coefficients.table
    places = [] if section is None else [(SECTION, section.streams.start)]
    return places if table is None else [*places, (TABLE, table.streams.start)]


def section_slots(coefficients: Coefficients) -> Fields:
    """The slots that sections are relative to."""
    section, table = streamed_section(coefficients), coefficients.table
    fields: Fields = {}
    if section is not None:
        fields |= {"Header.KernelBases.KBase0": section.slot, "Header.KernelBases.KBase0En": 1}
    return fields if table is None else fields | {"Slots.TableBase.Slot": table.slot}


def apart_fields(coefficients: Coefficients | None, policy: Policy) -> Fields:
    """Rule: a core's stream is stated where it has one, the table's where there is a table; both read is said twice."""
    if coefficients is None:
        return {}
    fields: Fields = {"KernelDMA.Control.Kernels": 1, "KernelDMA.Control.KernelsToo": 1,
                      "KernelDMA.Control.Sparse": int(coefficients.packing is Packing.SPARSE)}
    section = streamed_section(coefficients)
    start = 0 if section is None else section.streams.start
    for core, offset, size in () if section is None else section.streams:
        if not 0 <= core < policy.limits.cores:
            raise ProgramError(f"a stream belongs to one of {policy.limits.cores} cores, not to core {core}")
        fields |= {f"KernelDMA.CoeffDMAConfig[{core}].En": 1, f"KernelDMA.CoeffBaseAddr[{core}].Addr": offset - start,
                   f"KernelDMA.CoeffBfrSize[{core}].Size": size}
        if coefficients.runtime and policy.frames is not None:
            fields |= {f"KernelDMA.CoeffDMAConfig[{core}].{name}": value
                       for name, value in policy.frames.runtime.items()}
    if coefficients.table is not None:
        fields |= {"KernelDMA.TableDMAConfig.En": 1,
                   "KernelDMA.TableBfrSize.Size": policy.limits.coefficients.table.size}
    return fields


__all__ = ["SECTION", "TABLE", "apart_fields", "section_places", "section_slots", "streamed_section"]
