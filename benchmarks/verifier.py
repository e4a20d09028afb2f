"""How much the verifier catches, per field: mutants of small programs against strict execution; and what it costs.

A mutant is dangerous when strict execution, a walk of the chain or a look at the slots finds something wrong with it.
Prints per field: mutants, share refused, dangerous ones and how many of those were refused (must be all); then the
time of verifying relative to loading. $OPENANE_FUZZ sets the number of mutants.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from openane.errors import AneError
from openane.program import Program
from openane.program.verify import violations
from openane.simulator import load
from openane.simulator.strict import strict

DEFAULT = 2000
TESTS = Path(__file__).parents[1] / "tests" / "sim" / "verify"


@dataclass
class Count:
    """Mutants of one field."""

    made: int = 0
    refused: int = 0
    dangerous: int = 0
    missed: int = 0


def helper(name: str) -> ModuleType:
    """A module of the verifier's tests."""
    spec = importlib.util.spec_from_file_location(f"verify_{name}", TESTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def is_dangerous(program: Program, mutants: ModuleType) -> bool:
    """Whether anything is wrong with a program, without asking the verifier."""
    try:
        wrong = mutants.chain_defect(program) or mutants.unbound_slot(program) is not None
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
    bases, mutants = helper("bases").base_programs(), helper("mutants")
    counts: dict[str, Count] = defaultdict(Count)
    for mutant in mutants.mutants(bases, int(os.environ.get("OPENANE_FUZZ", DEFAULT)), 3):
        count = counts[mutant.what]
        refused, dangerous = bool(violations(mutant.program)), is_dangerous(mutant.program, mutants)
        count.made += 1
        count.refused += refused
        count.dangerous += dangerous
        count.missed += dangerous and not refused
    print(f"{'field':<44}{'mutants':>8}{'refused':>9}{'dangerous':>11}{'caught':>8}")
    for name, count in sorted(counts.items()):
        caught = f"{count.dangerous - count.missed}" if count.dangerous else "-"
        print(f"{name:<44}{count.made:>8}{count.refused / count.made:>9.0%}{count.dangerous:>11}{caught:>8}")
    total = Count(*(sum(getattr(c, f) for c in counts.values()) for f in ("made", "refused", "dangerous", "missed")))
    print(f"verifier: {total.made} mutants, {total.refused} refused, {total.dangerous} dangerous, {total.missed} missed; "
          f"verifying takes {cost(bases):.2f} of the time of loading")
    return int(total.missed > 0)


if __name__ == "__main__":
    sys.exit(main())
