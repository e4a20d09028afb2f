"""ONNX's own suite of node cases on `openane.onnx_backend`.

    python benchmarks/onnx_suite.py [--target GENERATION|all] [--pattern REGEX] [--json] [--write]

Prints how many cases run wholly on the engine within the stated tolerance (those ONNX expanded from other operators'
bodies apart), how many results depend on constants of the run alone, which are refused and why, and which are wrong.
`--write` writes tests/onnx_known.txt anew; a case that was not listed there is not added unless the onnx package has
cases the list was not made with (`--new`).

`--target` compiles for another generation, `all` for each: then the counts are printed beside each other, how many
cases have the bits of the first generation's results, and every case whose verdict is another one than there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import onnx
from support.onnx_suite import KNOWN, Verdict, cases, judge, read_known, written

from openane.chips import DEFAULT_TARGET, compiled_generations

KINDS = ("engine", "host", "constant", "refused", "wrong")
GROUPS = (("as ONNX states them", False), ("expanded from bodies", True))


def main() -> int:
    """Exit code 1 when a case is wrong, a verdict is another one than the first generation's, or the list would
    grow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=(*compiled_generations(), "all"), default=DEFAULT_TARGET,
                        help="what cases are compiled for (default: %(default)s)")
    parser.add_argument("--pattern", default="", help="only cases whose name matches")
    parser.add_argument("--json", action="store_true", help="verdicts as JSON, by target")
    parser.add_argument("--write", action="store_true", help="write tests/onnx_known.txt")
    parser.add_argument("--new", action="store_true", help="let --write add cases")
    options = parser.parse_args()
    targets = compiled_generations() if options.target == "all" else (options.target,)
    if options.write and targets != (DEFAULT_TARGET,):
        parser.error(f"the list is of {DEFAULT_TARGET} alone: leave --target out to write it")
    start = time.monotonic()
    found = {target: judged(options.pattern, target) for target in targets}
    seconds = time.monotonic() - start
    if options.json:
        json.dump({target: [vars(verdict) for verdict in verdicts] for target, verdicts in found.items()}, sys.stdout,
                  indent=1)
    elif len(found) > 1:
        report_targets(found, seconds)
    else:
        report(found[options.target], seconds)
    if options.write and not write(found[DEFAULT_TARGET], options.new):
        return 1
    return int(any(verdict.kind == "wrong" for verdicts in found.values() for verdict in verdicts)
               or any(others(found)))


def judged(pattern: str, target: str) -> list[Verdict]:
    """Every case whose name matches, compiled for a target."""
    asked = [case for case in cases() if re.search(pattern, case.name)]
    verdicts = []
    for number, case in enumerate(asked, 1):
        if sys.stderr.isatty():
            print(f"\r{target}: case {number} of {len(asked)}", end="\n" if number == len(asked) else "",
                  file=sys.stderr, flush=True)
        verdicts.append(judge(case, target))
    return verdicts


def others(found: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """A line for every verdict that is another one than the first target's."""
    first, *later = found
    return [f"{target}: {one.name} is {one.kind}{f' ({one.reason})' if one.reason else ''}, for {first} it is "
            f"{before.kind}{f' ({before.reason})' if before.reason else ''}"
            for target in later for one, before in zip(found[target], found[first], strict=True)
            if one.kind != before.kind]


def report_targets(found: Mapping[str, Sequence[Verdict]], seconds: float) -> None:
    """Counts of every target beside each other, and the verdicts that differ."""
    first = next(iter(found))
    print(f"onnx {onnx.__version__}: {len(found[first])} node cases on {len(found)} generations in {seconds:.0f} s")
    for title, expanded in GROUPS:
        print(title)
        for target, verdicts in found.items():
            counts = Counter(verdict.kind for verdict in verdicts if verdict.expanded == expanded)
            ran = [(one, before) for one, before in zip(verdicts, found[first], strict=True)
                   if one.expanded == expanded and one.kind == "engine"]
            same = sum(one.digest == before.digest for one, before in ran)
            print(f"  {target:6}" + "".join(f"{kind} {counts[kind]:5}   " for kind in KINDS)
                  + f"{same} of {len(ran)} with the bits of {first}")
    print("\n".join(others(found) or [f"every verdict is that of {first}"]))


def report(verdicts: list[Verdict], seconds: float) -> None:
    """Counts, then reasons by how often they are given."""
    print(f"onnx {onnx.__version__}: {len(verdicts)} node cases in {seconds:.0f} s")
    for title, expanded in GROUPS:
        counts = Counter(verdict.kind for verdict in verdicts if verdict.expanded == expanded)
        print(f"{title:22}" + "".join(f"{kind} {counts[kind]:5}   " for kind in KINDS))
    print("\nrefused, unexpanded, by reason:")
    reasons = Counter(re.sub(r"\(found.*", "", verdict.reason) for verdict in verdicts
                      if verdict.kind == "refused" and not verdict.expanded)
    for reason, count in reasons.most_common():
        print(f"{count:5}  {reason}")
    for verdict in verdicts:
        if verdict.kind == "wrong":
            print(f"WRONG {verdict.name}: {verdict.reason}")


def write(verdicts: list[Verdict], new: bool) -> bool:
    """Writes the list; False when it would grow."""
    known = read_known() if KNOWN.exists() else {}
    grown = [verdict.name for verdict in verdicts if verdict.kind in ("refused", "wrong") and verdict.name not in known]
    if grown and not new:
        print(f"{len(grown)} cases are not listed yet, {grown[0]} the first: the list only shrinks", file=sys.stderr)
        return False
    KNOWN.write_text("\n".join(written(verdicts)) + "\n")
    return True


if __name__ == "__main__":
    sys.exit(main())
