"""How much the verifier catches, per generation and field: mutants of small programs against strict execution; and what
it costs.

    python benchmarks/verifier.py [--generation NAME]... [--seed N] [--brief]

A mutant is dangerous when strict execution, a walk of the chain or a look at the slots finds something wrong with it.
Prints for each generation, per field: mutants, share refused, dangerous ones and how many of those were refused (must
be all; one that makes the verifier or strict execution fail counts as missed); then the sums and the time of verifying
relative to loading. $OPENANE_FUZZ sets the number of mutants of each generation. Every missed mutant is named.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from openane.chips import compiled_generations
from openane.errors import AneError
from openane.program import Program
from openane.program.verify import violations
from openane.simulator import load
from openane.simulator.strict import strict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.compiled_programs import compiled_programs
from support.mutants import mutants
from support.raw_checks import chain_defect, unbound_slot
from support.verifier_programs import base_programs

DEFAULT = 1000
OWN = "h13"
"""The generation that has programs of operations made by hand beside the compiled ones."""


@dataclass
class Count:
    """Mutants of one field."""

    made: int = 0
    refused: int = 0
    dangerous: int = 0
    missed: int = 0


def is_dangerous(program: Program) -> bool:
    """Whether anything is wrong with a program, without asking the verifier."""
    try:
        wrong = chain_defect(program) or unbound_slot(program) is not None
        return bool(wrong or strict(program).faults)
    except AneError:
        return True


def cost(programs: dict[str, Program]) -> float:
    """Time to verify all programs over the time to load them."""
    spent = []
    for work in (violations, load):
        start = time.perf_counter()
        for _ in range(10):
            for program in programs.values():
                work(program)
        spent.append(time.perf_counter() - start)
    return spent[0] / spent[1]


def bases_of(generation: str) -> dict[str, Program]:
    """The programs that mutants of a generation are made from, by name."""
    made = base_programs() if generation == OWN else {}
    return compiled_programs(generation) | {f"{name} by hand": program for name, program in made.items()}


def examined(generation: str, bases: dict[str, Program], number: int, seed: int) -> dict[str, Count]:
    """Counts per field over `number` mutants. Dangerous ones that were accepted are printed."""
    counts: dict[str, Count] = defaultdict(Count)
    for index, mutant in enumerate(mutants(bases, number, seed)):
        count = counts[mutant.what]
        try:
            refused, dangerous = bool(violations(mutant.program)), is_dangerous(mutant.program)
        except Exception as error:
            refused, dangerous = False, True
            print(f"{generation}: mutant {index} of seed {seed}: {type(error).__name__}: {error}", flush=True)
        count.made += 1
        count.refused += refused
        count.dangerous += dangerous
        if dangerous and not refused:
            count.missed += 1
            print(f"{generation}: missed mutant {index} of seed {seed}: {mutant.base}, {mutant.what}", flush=True)
    return counts


def print_fields(counts: dict[str, Count]) -> None:
    """The table of one generation."""
    print(f"{'field':<44}{'mutants':>8}{'refused':>9}{'dangerous':>11}{'caught':>8}")
    for name, count in sorted(counts.items()):
        caught = f"{count.dangerous - count.missed}" if count.dangerous else "-"
        print(f"{name:<44}{count.made:>8}{count.refused / count.made:>9.0%}{count.dangerous:>11}{caught:>8}")


def main() -> int:
    """Prints the tables; 1 when a dangerous mutant was accepted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generation", action="append", default=[], choices=compiled_generations(),
                        help="only mutants of this generation's programs; may be repeated (default: all)")
    parser.add_argument("--seed", type=int, default=3, help="other mutants for another number (default: %(default)s)")
    parser.add_argument("--brief", action="store_true", help="without the fields")
    arguments = parser.parse_args()
    number, missed = int(os.environ.get("OPENANE_FUZZ", DEFAULT)), 0
    for generation in arguments.generation or compiled_generations():
        bases = bases_of(generation)
        counts = examined(generation, bases, number, arguments.seed)
        if not arguments.brief:
            print_fields(counts)
        sums = {name: sum(getattr(count, name) for count in counts.values())
                for name in ("made", "refused", "dangerous", "missed")}
        print(f"verifier, {generation}: {sums['made']} mutants of {len(bases)} programs, {sums['refused']} refused, "
              f"{sums['dangerous']} dangerous, {sums['missed']} missed; verifying takes {cost(bases):.2f} of the time "
              "of loading", flush=True)
        missed += sums["missed"]
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
