"""Mutants of programs: flipped bits, set fields, broken structure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from openane.chips import Chip, get_chip
from openane.engine import Access
from openane.errors import ProgramError
from openane.program import Buffer, Program, Role, Task
from openane.registers import Field

PLACING = ("Stride", "Addr", "Base", "Dim", "Depth", "Cin", "Cout", "Type", "Groups", "Interleave", "Fmt", "Conv",
           "Broadcast", "Swap", "Size", "En", "TileHeight")
"""Parts of the names of fields that say where things lie; chosen more often than others."""


@dataclass(frozen=True)
class Mutant:
    """A changed program and what was changed."""

    base: str
    what: str
    program: Program


def mutants(bases: dict[str, Program], count: int, seed: int) -> Iterator[Mutant]:
    """`count` mutants of programs drawn from `bases`; the same for the same seed."""
    rng = random.Random(seed)
    names = sorted(bases)
    made = 0
    while made < count:
        name = rng.choice(names)
        mutate = rng.choices((flip_bit, set_field, set_placing_field, change_operation, break_structure, flip_constant),
                             (4, 4, 5, 6, 3, 1))[0]
        try:
            mutant = mutate(bases[name], rng)
        except ProgramError:  # the model itself refuses it
            continue
        if mutant is not None and mutant[1] != bases[name]:
            made += 1
            yield Mutant(name, *mutant)


def flip_bit(program: Program, rng: random.Random) -> tuple[str, Program]:
    """One bit of one word."""
    index = rng.randrange(len(program.tasks))
    words = list(program.tasks[index].words)
    position = rng.randrange(len(words))
    bit = rng.randrange(32)
    words[position] ^= 1 << bit
    chip = get_chip(program.chip)
    what = field_at(chip, program.tasks[index], position, bit) if chip.linked else fields_between(
        chip, program.tasks[index].words, tuple(words))
    return what, with_task(program, index, tuple(words))


def field_at(chip: Chip, task: Task, position: int, bit: int) -> str:
    """The field that a bit of a word of a linked task belongs to."""
    if position < 10:
        name, register = chip.header.by_address[4 * position]
    else:
        fields = chip.decode(task.words)
        at = len(task.words) - sum(1 + count for _, count in fields.records)
        if position < at:
            return "Header.Dependency.DTID"
        for base, count in fields.records:
            if position == at:
                return "(run header)"
            if position <= at + count:
                name, register = chip.bank.by_address[base + 4 * (position - at - 1)]
                break
            at += 1 + count
    found = [f.name for f in register.fields if f.mask >> bit & 1]
    return without_index(f"{name}.{found[0]}") if found else f"{without_index(name)} (undescribed)"


def fields_between(chip: Chip, words: tuple[int, ...], changed: tuple[int, ...]) -> str:
    """The fields that differ between two tasks."""
    try:
        before, after = chip.decode(words), chip.decode(changed)
    except ProgramError:
        return "(not to be decoded)"
    names = {name for name, value in after.values.items() if before.values.get(name) != value}
    names |= before.values.keys() - after.values.keys()
    names |= {f"{name} (undescribed)" for name, value in after.rest.items() if before.rest.get(name) != value}
    return ", ".join(sorted(map(without_index, names))) or "(nothing)"


def without_index(name: str) -> str:
    """`KernelDMA.CoeffBaseAddr[3].Addr` as `KernelDMA.CoeffBaseAddr.Addr`."""
    head, bracket, tail = name.partition("[")
    return head + tail.partition("]")[2] if bracket else name


def set_field(program: Program, rng: random.Random) -> tuple[str, Program] | None:
    """Another legal value in any field."""
    return _set(program, rng, "")


def set_placing_field(program: Program, rng: random.Random) -> tuple[str, Program] | None:
    """Another legal value in a field that says where something lies."""
    return _set(program, rng, rng.choice(PLACING))


def _set(program: Program, rng: random.Random, part: str) -> tuple[str, Program] | None:
    chip, index = get_chip(program.chip), rng.randrange(len(program.tasks))
    fields = chip.decode(program.tasks[index].words)
    names = [name for name in fields.values if part in name]
    if not names:
        return None
    name = rng.choice(names)
    bank = chip.header if name.startswith("Header.") else chip.bank
    value = other_value(bank.locate(name)[2], fields.values[name], rng)
    words = chip.encode(replace(fields, values={**fields.values, name: value}))
    return without_index(name), with_task(program, index, words)


def other_value(field: Field, value: object, rng: random.Random) -> int | float | str:
    """A legal value: near the old one, at an end, or anywhere."""
    if field.kind == "enum":
        return rng.choice(sorted(field.values))
    if field.kind in ("fp16", "fp32"):
        return rng.choice((0.0, 1.0, -2.0, 0.5, float("inf"), float("nan")))
    low, high = field.range
    step = 1 << field.shift
    near = int(value) + step * rng.choice((-4, -2, -1, 1, 2, 4, 16, 64)) if isinstance(value, int) else low
    double = int(value) * 2 if isinstance(value, int) else low
    chosen = rng.choice((near, near, near, double, low, high, low + step * rng.randrange(1 << field.width)))
    return min(max(chosen, low), high)


def change_operation(program: Program, rng: random.Random) -> tuple[str, Program]:
    """The program emitted anew with operands of one operation moved, stretched or put elsewhere: every register
    consistent, the data perhaps not."""
    chip = get_chip(program.chip)
    operations: list[Any] = [chip.operation(task.words) for task in program.tasks]
    index = rng.randrange(len(operations))
    changed = operations[index]
    for _ in range(rng.choice((1, 1, 2))):
        changed = _moved(changed, rng)
    operations[index] = changed
    return "(operand)", _emitted(program, operations)


def _emitted(program: Program, operations: list[Any]) -> Program:
    return replace(program, tasks=tuple(Task(t.words, t.offset) for t in get_chip(program.chip).emit(operations)))


def _moved(operation: Any, rng: random.Random) -> Any:
    names = [name for name in ("source", "first", "second", "result") if getattr(operation, name, None) is not None]
    extents = rng.random() < 0.3
    axis, change = rng.randrange(5), rng.choice((-1, 1, 2))
    for name in names if extents else [rng.choice(names)]:
        access = getattr(operation, name)
        if extents:
            shape = tuple(e + change * (i == axis) for i, e in enumerate(access.shape))
            access = replace(access, shape=shape, strides=_filled(access, rng))
        elif rng.random() < 0.2:
            access = replace(access, slot=rng.choice((1, 3, 4, 5, 6)))
        elif rng.random() < 0.5:
            access = replace(access, offset=max(0, access.offset + 16 * rng.choice((-64, -4, -1, 1, 4, 8, 64))))
        else:
            stretched = rng.randrange(4)
            strides = tuple(s + rng.choice((-64, 64, 16, -16)) * (i == stretched) for i, s in enumerate(access.strides))
            access = replace(access, strides=tuple(max(s, 0) for s in strides))
        operation = replace(operation, **{name: access})
    return operation


def _filled(access: Access, rng: random.Random) -> tuple[int, ...]:
    """Strides with something in place of the zeros of extent-1 dimensions, or as they are."""
    if rng.random() < 0.3:
        return access.strides
    return tuple(s or (64 * rng.choice((1, 2, 16)) if i < 4 else 2) for i, s in enumerate(access.strides))


def break_structure(program: Program, rng: random.Random) -> tuple[str, Program] | None:
    """The chain, slots, sizes, roles, layouts or constants changed."""
    change = rng.choice(STRUCTURAL)
    broken = change(program, rng)
    return None if broken is None else (f"({change.__name__.strip('_')})", broken)


def _drop_task(program: Program, rng: random.Random) -> Program:
    index = rng.randrange(len(program.tasks))
    return replace(program, tasks=program.tasks[:index] + program.tasks[index + 1:])


def _swap_tasks(program: Program, rng: random.Random) -> Program:
    tasks = list(program.tasks)
    rng.shuffle(tasks)
    return replace(program, tasks=tuple(tasks))


def _repeat_task(program: Program, rng: random.Random) -> Program:
    return replace(program, tasks=(*program.tasks, rng.choice(program.tasks)))


def _move_task(program: Program, rng: random.Random) -> Program:
    index = rng.randrange(len(program.tasks))
    task = program.tasks[index]
    moved = replace(task, offset=task.offset + rng.choice((-0x100, -16, 4, 16, 0x100, 1 << 24)))
    return replace(program, tasks=(*program.tasks[:index], moved, *program.tasks[index + 1:]))


def _resize_task(program: Program, rng: random.Random) -> Program:
    index = rng.randrange(len(program.tasks))
    words = program.tasks[index].words
    return with_task(program, index, rng.choice((words[:-1], (*words, 0), words[:11], words[:3], ())))


def _relink(program: Program, rng: random.Random) -> Program:
    """The same operations linked anew without one of them."""
    if len(program.tasks) < 2:
        raise ProgramError("a chain of one")
    operations = [get_chip(program.chip).operation(task.words) for task in program.tasks]
    operations.pop(rng.randrange(len(operations)))
    return _emitted(program, operations)


def _reorder(program: Program, rng: random.Random) -> Program:
    """The same operations linked anew in another order."""
    operations = [get_chip(program.chip).operation(task.words) for task in program.tasks]
    rng.shuffle(operations)
    return _emitted(program, operations)


def _change_buffer(program: Program, rng: random.Random) -> Program:
    index = rng.randrange(len(program.buffers))
    buffer = program.buffers[index]
    layout = buffer.layout
    changed: list[Buffer] = [
        replace(buffer, size=max(0, buffer.size + rng.choice((-64, -2, -1, 64, -buffer.size, -buffer.size // 2)))),
        replace(buffer, slot=rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 31, 32, 99, -1))),
        replace(buffer, role=rng.choice(tuple(Role))),
    ]
    if layout is not None:
        axis = rng.randrange(5)
        shape = tuple(e + rng.choice((-1, 1, 2)) * (i == axis) for i, e in enumerate(layout.shape))
        strides = tuple(s + rng.choice((-64, 64, 2)) * (i == axis) for i, s in enumerate(layout.strides))
        changed += [replace(buffer, layout=replace(layout, shape=shape)), replace(buffer, layout=None),
                    replace(buffer, layout=replace(layout, strides=strides)),
                    replace(buffer, layout=replace(layout, interleave=rng.choice((0, 2, 4))))]
    return replace(program, buffers=(*program.buffers[:index], rng.choice(changed), *program.buffers[index + 1:]))


def _remove_buffer(program: Program, rng: random.Random) -> Program:
    index = rng.randrange(len(program.buffers))
    return replace(program, buffers=program.buffers[:index] + program.buffers[index + 1:])


def _cut_constants(program: Program, rng: random.Random) -> Program:
    return replace(program, constants=program.constants[:len(program.constants) * rng.randrange(4) // 4])


STRUCTURAL = (_drop_task, _swap_tasks, _repeat_task, _move_task, _resize_task, _relink, _reorder, _change_buffer,
              _change_buffer, _change_buffer, _remove_buffer, _cut_constants)


def flip_constant(program: Program, rng: random.Random) -> tuple[str, Program] | None:
    """One bit of the constants."""
    if not program.constants:
        return None
    data = bytearray(program.constants)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return "(constants)", replace(program, constants=bytes(data))


def with_task(program: Program, index: int, words: tuple[int, ...]) -> Program:
    """The program with other words in one task."""
    tasks = program.tasks
    return replace(program, tasks=(*tasks[:index], replace(tasks[index], words=words), *tasks[index + 1:]))
