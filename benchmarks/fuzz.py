"""Mutated files, texts and requests of every kind the project reads: each is read or refused with a message, in little
time and memory.

    python benchmarks/fuzz.py [TARGET]... [--seconds S | --count N] [--seed SEED] [--start NUMBER] [--keep FOLDER]
    python benchmarks/fuzz.py --list

What is changed is the project's own, made for this. Targets take turns for S seconds (60) altogether, or each has N
mutants, from number START on. A defect is an exception that is no AneError, an AneError without a message, more than 6
seconds of processor time, more than a gibibyte, or a process that dies; the first mutant of each kind is written to
FOLDER. Printed are the mutants of each target, how many were read, how many a second, and the defects with the number
of their first mutant, which --start NUMBER --count 1 tries again. Exit code 1 where there are any.
"""

from __future__ import annotations

import argparse
import json
import mmap
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from fuzzing import files, folders, others, requests
from fuzzing.watched import PAGE, Found, Run, drawn, watched, work

TARGETS = files.TARGETS | folders.TARGETS | others.TARGETS | requests.TARGETS
ENDLESS = 1 << 62


def report(name: str, found: Found) -> str:
    """The lines about a target."""
    rate = found.tried / found.seconds if found.seconds else 0.0
    return "\n".join([f"{name:19} {found.tried:9} mutants, {found.read:8} read, {rate:7.0f} a second, "
                      f"{found.defects.total()} defects",
                      *(f"  {often:8}  {wrong}  (number {found.first[wrong]})"
                        for wrong, often in found.defects.most_common())])


def kept(name: str, seed: int, found: Found, folder: Path) -> None:
    """Writes the first mutant of each defect."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        target = TARGETS[name](Path(place))
        for number in found.first.values():
            (folder / f"{name}_{number}").write_bytes(drawn(target, name, seed, number))


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--page", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.page is not None:
        work(TARGETS, [Run(**run) for run in options.runs], options.seed, mmap.mmap(options.page, PAGE))
        return 0
    if options.list:
        print("\n".join(TARGETS))
        return 0
    names = options.targets or list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(TARGETS)}")
    wrong = False
    runs = [Run(name, options.start, options.count or ENDLESS, float(ENDLESS) if options.count else
                options.seconds / len(names)) for name in names]
    for name, found in watched(runs, options.seed, Path(__file__)):
        print(report(name, found), flush=True)
        if found.defects and options.keep:
            kept(name, options.seed, found, options.keep)
        wrong |= bool(found.defects)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
