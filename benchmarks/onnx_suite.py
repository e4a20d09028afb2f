"""ONNX's own suite of node cases on `openane.onnx_backend`.

    python benchmarks/onnx_suite.py [--pattern REGEX] [--json] [--write]

Prints how many cases run wholly on the engine within the stated tolerance (those ONNX expanded from other operators'
bodies apart), how many results depend on constants of the run alone, which are refused and why, and which are wrong.
`--write` writes tests/onnx_known.txt anew; a case that was not listed there is not added unless the onnx package has
cases the list was not made with (`--new`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import onnx
from support.onnx_suite import KNOWN, Verdict, cases, judge, read_known, written

KINDS = ("engine", "constant", "refused", "wrong")


def main() -> int:
    """Exit code 1 when a case is wrong, or the list would grow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pattern", default="", help="only cases whose name matches")
    parser.add_argument("--json", action="store_true", help="verdicts as JSON")
    parser.add_argument("--write", action="store_true", help="write tests/onnx_known.txt")
    parser.add_argument("--new", action="store_true", help="let --write add cases")
    options = parser.parse_args()
    start = time.monotonic()
    verdicts = [judge(case) for case in cases() if re.search(options.pattern, case.name)]
    seconds = time.monotonic() - start
    if options.json:
        json.dump([vars(verdict) for verdict in verdicts], sys.stdout, indent=1)
    else:
        report(verdicts, seconds)
    if options.write and not write(verdicts, options.new):
        return 1
    return 1 if any(verdict.kind == "wrong" for verdict in verdicts) else 0


def report(verdicts: list[Verdict], seconds: float) -> None:
    """Counts, then reasons by how often they are given."""
    print(f"onnx {onnx.__version__}: {len(verdicts)} node cases in {seconds:.0f} s")
    for title, expanded in (("as ONNX states them", False), ("expanded from bodies", True)):
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
