"""The programs of trials, compiled as for any user, and what hypotheses say of them, by the simulator."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

import numpy as np

from openane.chips import get_chip
from openane.compiler import Model, compile
from openane.devices.other_engine import engine_seconds
from openane.devices.packer import logical_shape, pack, unpack
from openane.engine import Operation
from openane.errors import UnsupportedError
from openane.experiments.outcome import Ending, digest, packed
from openane.experiments.record import Arrays, Experiment, Hypothesis, Kind, Trial
from openane.program import Program
from openane.program.verify import Verified, verify
from openane.simulator import load
from openane.simulator.variation import Variation, parse_variation
from openane.timing import SubmissionRoute

MOST_DECOYS = 8
NOT_STATED = "not stated"
"""Of a field that no task writes."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a hypothesis expects of a trial: how runs end, the digest of their outputs, the seconds they take."""

    ending: Ending
    digest: str = ""
    seconds: float = 0.0


@lru_cache(maxsize=1024)
def model_of(trial: Trial, generation: str) -> Model:
    """The trial's model, compiled for a generation. UnsupportedError where it cannot be."""
    return compile(trial.graph(), target=generation, allow_host=False, precision="as-is")


@lru_cache(maxsize=1024)
def program_of(trial: Trial, generation: str) -> Verified:
    """The trial's program, verified. VerifyError, UnsupportedError, also where the trial becomes several programs."""
    first, *others = model_of(trial, generation).programs
    if others:
        raise UnsupportedError(f"trial {trial.name!r}", f"an experiment is one program for {generation}",
                               found=f"{1 + len(others)} programs", limit="1 program")
    return verify(first)


def inputs_of(trial: Trial, program: Program, decoy: bool = False) -> Arrays:
    """Its inputs as the program's buffers hold them, or those of a decoy."""
    return trial.inputs({buffer.name: logical_shape(buffer.layout) for buffer in program.inputs
                         if buffer.layout is not None}, decoy)


def decoys(program: Program) -> int:
    """How often a program runs on other inputs before the run that counts. What a task reads too early is then what a
    decoy left there, for as many tasks as there are decoys, and not the right result of an equal run before."""
    tasks = len(program.tasks)
    return min(tasks, MOST_DECOYS) if tasks > 1 else 0


@lru_cache(maxsize=1024)
def program_digest(experiment: Experiment, trial: Trial, generation: str) -> str:
    """Says which program and inputs these are."""
    program = program_of(trial, generation).program
    if experiment.kind is Kind.WORDS:
        return digest(json.dumps([program.text().hex(), trial.fields]).encode())
    return digest(program.text() + bytes(program.constants) + packed(inputs_of(trial, program)))


@lru_cache(maxsize=8192)
def expected(experiment: Experiment, trial: Trial, hypothesis: Hypothesis, generation: str, chip: str,
             route: SubmissionRoute) -> Expected:
    """What the hypothesis expects on an engine of a generation, in a chip, by a route."""
    verified, variation = program_of(trial, generation), parse_variation(hypothesis.engine)
    program = verified.program
    if experiment.kind is Kind.WORDS:
        return Expected(Ending.DONE, digest(words_content(program, trial.fields, variation)))
    if variation.refusal(amounts(program)):
        return Expected(Ending.REFUSED)
    loaded = load(verified, "exact", variation=variation)
    if any(map(variation.hangs, loaded.operations)):
        return Expected(Ending.HUNG)
    seconds = engine_seconds(loaded.operations, chip, route, variation)
    if experiment.kind is Kind.TIMES:
        return Expected(Ending.DONE, "", seconds)
    for decoy in [True] * (decoys(program) if variation.race else 0) + [False]:
        given = inputs_of(trial, program, decoy)
        for buffer in program.inputs:
            assert buffer.layout is not None
            pack(given[buffer.name], buffer.layout, loaded.buffers[buffer.name], buffer.name)
        loaded.run()
    found = {buffer.name: unpack(buffer.layout, loaded.buffers[buffer.name], logical_shape(buffer.layout), buffer.name)
             for buffer in program.outputs if buffer.layout is not None}
    return Expected(Ending.DONE, digest(packed(found)), seconds)


def operations_of_trial(trial: Trial, generation: str) -> tuple[Operation, ...]:
    """What the engine does in it."""
    return program_of(trial, generation).operations


def amounts(program: Program) -> Mapping[str, int]:
    """What an interface may refuse a program for."""
    return {"ports": len(program.inputs) + len(program.outputs), "tasks": len(program.tasks),
            "text": len(program.text()), "constants": len(program.constants)}


def words_content(program: Program, patterns: tuple[str, ...], variation: Variation) -> bytes:
    """The values that the tasks of a program state in the fields of some patterns, as JSON."""
    chip = get_chip(program.chip)
    found: dict[str, set[str]] = {name: set() for name in fields_of(program.chip, patterns)}
    for task in program.tasks:
        values = chip.decode(variation.fields(task.words, chip)).values
        for name in found:
            found[name].add(str(values[name]) if name in values else NOT_STATED)
    if len(program.tasks) > 0:
        found = {name: values - {NOT_STATED} or {NOT_STATED} for name, values in found.items()}
    return json.dumps({name: sorted(values) for name, values in sorted(found.items())}).encode()


@lru_cache(maxsize=256)
def fields_of(generation: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Names of a generation's fields, `Block.Register.Field`, that fit a pattern."""
    return tuple(name for name in _names(generation) if any(fnmatchcase(name, each) for each in patterns))


def _names(generation: str) -> Iterator[str]:
    chip = get_chip(generation)
    for bank in (chip.header, chip.bank):
        for block in bank.blocks:
            for register in block.registers:
                numbers = [f"[{k}]" for k in range(register.count)] if register.count > 1 else [""]
                yield from (f"{block.name}.{register.name}{number}.{field.name}" for number in numbers
                            for field in register.fields)


def default_of(generation: str, block: str, register: str, field: str) -> str:
    """What a field holds where nobody says anything. KeyError for a field that is none."""
    chip = get_chip(generation)
    found = {each.name: each for bank in (chip.header, chip.bank) for table in bank.blocks if table.name == block
             for known in table.registers if known.name == register for each in known.fields}
    return str(found[field].default_value())


def indistinct(experiment: Experiment, generation: str, chip: str, route: SubmissionRoute) -> list[str]:
    """Pairs of hypotheses that nothing in the experiment tells apart."""
    outcomes = {h.name: [expected(experiment, t, h, generation, chip, route) for t in experiment.trials]
                for h in experiment.hypotheses}
    names = list(outcomes)
    return [f"{experiment.name}: {a} and {b}" for i, a in enumerate(names) for b in names[i + 1:]
            if all(_alike(experiment.kind, x, y) for x, y in zip(outcomes[a], outcomes[b], strict=True))]


NEAR = 0.42
"""Logarithm of the factor up to which two times are not told apart for sure: 1.5."""


def _alike(kind: Kind, a: Expected, b: Expected) -> bool:
    if a.ending is not b.ending:
        return False
    if kind is Kind.TIMES and a.ending is Ending.DONE:
        return bool(abs(np.log(a.seconds / b.seconds)) < NEAR)
    return a.digest == b.digest


__all__ = ["NOT_STATED", "Expected", "amounts", "decoys", "default_of", "expected", "fields_of", "indistinct",
           "inputs_of", "model_of", "program_digest", "program_of", "words_content"]
