"""Facts of the hardware are written in `chips`: elsewhere no constant is named like one, no number used like one.

What is refused: a constant in capitals whose name speaks of alignments, banks, lanes, cores, slots, pages, tiles,
bursts or memories and which is a number; rounding to multiples of a number that is an alignment of some generation; a
slot that is compared with a number, or given as one. What looks so and is none of the engine's is listed with what it
is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "openane"
HOME = ("chips", "registers")
NAMED = re.compile(r"ALIGN|BANK|(^|_)LANES?(_|$)|CORES?(_|$)|SLOT|PAGE|GRANULE|BURST|(^|_)TILE|(^|_)L2(_|$)|^PAD$|"
                   r"_PAD$|KERNEL|CELL|ADDRESS|WIDTH|STREAM|CHUNK")
STEPS = {16, 32, 64, 128, 0x100, 0x300, 0x4000}
STATED = ("alignment", "cores", "lanes", "slot")

NOT_THE_ENGINES = {
    "cli/progress.py WIDTH": "of the text",
    "compiler/buffers/storage.py FIRST_VIRTUAL_SLOT": "numbers of buffers before they have slots",
    "compiler/patch/fold_weights.py CHUNK": "elements computed at a time, for the cache of the processor",
    "compiler/recipes/data_movement.py CELL_BYTES": "memory a reshape may take, a choice",
    "compiler/recipes/data_movement.py CELL_SHARE": "a share of L2, a choice",
    "compiler/recipes/data_movement.py CELL_LIMIT": "memory a reshape may take, a choice",
    "compiler/recipes/planar_ops.py L2_SHARE": "a share of what the chip has, a choice",
    "devices/linux/buffers.py GRANULE": "pages of the processor",
    "devices/linux/interface.py COMMAND_GRANULE": "of the driver",
    "devices/macos/e5rt.py BUFFER_GRANULE": "of the framework",
    "devices/macos/shared_memory.py ALIGNMENT": "of arrays between two processes",
    "devices/macos/standin/faults.py ROW_ALIGNMENT": "of IOSurface",
    "devices/macos/surfaces.py ROW_ALIGNMENT": "of IOSurface",
    "devices/simdriver/driver.py PAGE": "pages of the processor",
    "doctor/linux.py OLDEST_KERNEL": "a version of Linux",
    "formats/anec.py NUMBERS_PER_SLOT": "of the file format",
    "formats/anec.py SLOTS": "of the file format",
    "formats/blob.py ALIGNMENT": "of the file format",
    "formats/hwx/descriptors.py SLOTS": "of the file format",
    "formats/hwx/image.py CONSTANT_ALIGNMENT": "of the file format",
    "formats/hwx/image.py SECTION_ALIGNMENT": "of the file format",
    "formats/hwx/symbols.py first % 32": "of the file format",
    "formats/hwx/wide.py SLOTS": "of the file format",
    "formats/macho/commands.py PAGE": "of the file format",
    "formats/tasks.py CONSTANT_ALIGNMENT": "of the driver",
    "formats/tasks.py FIRST_BUFFER_SLOT": "of the driver's tools",
    "formats/tasks.py INTERMEDIATE_SLOTS": "of the driver's tools",
    "formats/tasks.py TILE": "of the file formats",
    "importers/onnx/writing/document.py ALIGNMENT": "of pages of the processor, which map files",
    "importers/espresso/files.py max(0, len(data) - 8) // 16": "of the file format",
    "importers/netplist/outgoing.py ALIGNMENT": "of the file format",
    "bench/programs.py channels // 32": "a shape of a measured network",
    "program/verify/regions.py FEW_CELLS": "a bound of the work",
    "ops/half_products.py CHUNK": "numbers worked on at a time, for the processor's cache",
    "program/verify/written.py PAGE": "bytes that are looked up together",
    "simulator/arithmetic/candidates.py TILE": "of a rule that is not applied",
    "simulator/arithmetic/compiled.py WIDTH": "of the processor's vectors",
    "simulator/arithmetic/exact.py TILE": "of the processor's cache",
    "simulator/coefficients.py LANES": "from which copying is faster, a choice",
    "simulator/compiled/packed.py LANES": "from which loops are compiled for a known number, a choice",
    "simulator/compiled/planar.py CHUNK": "elements computed at a time, for the cache of the processor",
    "simulator/context.py _ALIGNED": "of the processor's cache",
    "simulator/winograd.py KERNEL": "of Winograd's form",
}


def number(node: ast.expr) -> bool:
    """Whether an expression is made of whole numbers alone."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.BinOp):
        return number(node.left) and number(node.right)
    return isinstance(node, ast.Tuple) and bool(node.elts) and all(map(number, node.elts))


def rounds(node: ast.AST) -> bool:
    """Whether it divides by an alignment."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.FloorDiv) and number(node.right) \
        and eval(ast.unparse(node.right)) in STEPS


def names_slot(node: ast.AST) -> bool:
    """Whether it compares a slot with a number."""
    return isinstance(node, ast.Compare) and getattr(node.left, "attr", getattr(node.left, "id", "")) == "slot" \
        and any(map(number, node.comparators))


def facts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, what it is) of everything that looks like a fact of the hardware."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and number(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((node.lineno, t.id) for t in targets
                        if isinstance(t, ast.Name) and t.id.isupper() and NAMED.search(t.id))
        elif rounds(node) or names_slot(node):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.keyword) and node.arg in STATED and number(node.value):
            yield node.value.lineno, f"{node.arg}={ast.unparse(node.value)}"


@cache
def found() -> tuple[tuple[str, str], ...]:
    """(what it is and in which file, the same with its line) of all in the source."""
    names = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return tuple((f"{name} {what}", f"{name}:{line}: {what}") for name, path in names.items()
                 if name.split("/")[0] not in HOME for line, what in facts(ast.parse(path.read_text())))


def test_numbers_of_the_hardware_stand_in_chips() -> None:
    wrong = [place for key, place in found() if key not in NOT_THE_ENGINES]
    assert not wrong, "ask the chip (limits, policy, facts), or say in NOT_THE_ENGINES whose number it is:\n" \
        + "\n".join(wrong)


def test_the_list_of_exceptions_is_not_longer_than_needed() -> None:
    assert set(NOT_THE_ENGINES) == {key for key, _ in found()} & set(NOT_THE_ENGINES)


@pytest.mark.parametrize("code", [
    "L2_SIZE = 1 << 21", "ROW_ALIGNMENT = 64", "CORES: int = 16", "SCRATCH_SLOT = 3", "pad = -(-size // 64) * 64",
    "ok = offset % 16 == 0", "constant = access.slot == 1", "place = Access(slot=1, shape=shape)",
    "Coefficients(section, lanes=16)"])
def test_a_fact_that_is_put_in_is_found(code: str) -> None:
    assert list(facts(ast.parse(code)))


@pytest.mark.parametrize("code", ["row = limits.memory_row(size)", "WORDS = 64", "half = size // 2",
                                  "same = access.slot == slots.constants"])
def test_what_asks_the_chip_is_not(code: str) -> None:
    assert not list(facts(ast.parse(code)))
