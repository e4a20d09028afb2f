"""How much the verifier catches, per field: mutants of small programs against strict execution; and what it costs.

A mutant is dangerous when strict execution, a walk of the chain or a look at the slots finds something wrong with it.
Prints per field: mutants, share refused, dangerous ones and how many of those were refused (must be all); then the
time of verifying relative to loading. $OPENANE_FUZZ sets the number of mutants.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from openane.errors import AneError
from openane.program import Program
from openane.program.verify import violations
from openane.simulator import load
from openane.simulator.strict import strict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.mutants import mutants
from support.raw_checks import chain_defect, unbound_slot
from support.verifier_programs import base_programs

DEFAULT = 2000


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


def main() -> int:
    """Prints the table; 1 when a dangerous mutant was accepted."""
    bases = base_programs()
    counts: dict[str, Count] = defaultdict(Count)
    for mutant in mutants(bases, int(os.environ.get("OPENANE_FUZZ", DEFAULT)), 3):
        count = counts[mutant.what]
        refused, dangerous = bool(violations(mutant.program)), is_dangerous(mutant.program)
        count.made += 1
        count.refused += refused
        count.dangerous += dangerous
        count.missed += dangerous and not refused
    print(f"{'field':<44}{'mutants':>8}{'refused':>9}{'dangerous':>11}{'caught':>8}")
    for name, count in sorted(counts.items()):
        caught = f"{count.dangerous - count.missed}" if count.dangerous else "-"
        print(f"{name:<44}{count.made:>8}{count.refused / count.made:>9.0%}{count.dangerous:>11}{caught:>8}")
    total = Count(*(sum(getattr(c, f) for c in counts.values()) for f in ("made", "refused", "dangerous", "missed")))
    print(f"verifier: {total.made} mutants, {total.refused} refused, {total.dangerous} dangerous, "
          f"{total.missed} missed; verifying takes {cost(bases):.2f} of the time of loading")
    return int(total.missed > 0)


if __name__ == "__main__":
    sys.exit(main())
