"""Mutated and forged files of evidence: none may raise anything but a typed error, or change a table.

    python benchmarks/forged_evidence.py [--count 100000]

Half of the files have bytes changed, half have records changed and are sealed again. What is read is judged, and the
change it asks for is prepared, too.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.evidence_mutants import example, mutants, resealed

from openane.chips.attested import ATTESTED
from openane.errors import FormatError
from openane.experiments.evidence_file import read_evidence
from openane.experiments.judge.odds import verdicts
from openane.experiments.judge.tables import prepared


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    count = parser.parse_args().count
    good, generator, table = example(), random.Random(5), ATTESTED.read_bytes()
    ends: Counter[str] = Counter()
    for number, data in enumerate(mutants(good, count, seed=4)):
        try:
            evidence = read_evidence(resealed(good, generator) if number % 2 else data)
        except FormatError:
            ends["refused"] += 1
            continue
        decided = sum(bool(each.named) for each in verdicts(evidence))
        ends["read, something decided" if decided else "read, nothing decided"] += 1
        if prepared([evidence], simulated=True):
            ends["asks for a change"] += 1
    assert ATTESTED.read_bytes() == table
    print(", ".join(f"{name}: {number}" for name, number in sorted(ends.items())))
    print(f"{count} files, no other error, no table changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
