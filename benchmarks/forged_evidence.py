"""Mutated and forged files of evidence: none may raise anything but a typed error, or change a table.

    python benchmarks/forged_evidence.py [--count 100000]

Of a file of experiments that ran on the simulated driver and calls its engine real, a third has bytes changed, a third
has any values changed and is sealed again, and a third is sealed and looks true: other endings, times, outputs,
engines. What is read is judged, the change it asks for is prepared and its times are fitted.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.evidence_mutants import forged, mutants, resealed
from support.planted_engines import attested, linux

from openane.chips.attested import ATTESTED
from openane.errors import FormatError
from openane.experiments import find_experiment
from openane.experiments.attest.journal import as_line
from openane.experiments.attest.route import find_place
from openane.experiments.evidence_file import read_evidence, write_evidence
from openane.experiments.judge.odds import verdicts
from openane.experiments.judge.tables import prepared

CHOSEN = ("short_row_sums", "signed_zero", "dispatch_cost", "port_limit", "reduction_root")


def true_file() -> bytes:
    """What these experiments show on the simulated driver, called a real engine."""
    place, trials, head = find_place(linux("")), [], {}
    for name in CHOSEN:
        with tempfile.TemporaryDirectory() as folder:
            made = attested(place, find_experiment(name), Path(folder))
        head, trials = dict(made.head), [*trials, *map(as_line, made.trials)]
    head["about"] = head["about"] | {"engine": "real"}
    return write_evidence(json.loads(json.dumps(head)), trials)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    count = parser.parse_args().count
    good, generator, table = true_file(), random.Random(5), ATTESTED.read_bytes()
    ends: Counter[str] = Counter()
    changed = mutants(good, count, seed=4)
    for number in range(count):
        if number % 10_000 == 0:
            print(f"{number} so far", file=sys.stderr, flush=True)
        made = (lambda: next(changed), lambda: resealed(good, generator), lambda: forged(good, generator))
        try:
            evidence = read_evidence(made[number % 3]())
        except FormatError:
            ends["refused"] += 1
            continue
        decided = sum(bool(each.named) for each in verdicts(evidence))
        ends["read, something decided" if decided else "read, nothing decided"] += 1
        if prepared([evidence]):
            ends["asks for a change"] += 1
    assert ATTESTED.read_bytes() == table
    print(", ".join(f"{name}: {number}" for name, number in sorted(ends.items())))
    print(f"{count} files, no other error, no table changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
