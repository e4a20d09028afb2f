"""How near our compiler is to Apple's: the MIL of every record of Apple's compiler, compiled here, word by word.

    python benchmarks/parity.py [--corpus DIR]... [--case NAME] [--json] [--brief]

Records are looked for in DIR/apple/oracles, by default under $OPENANE_CORPUS; of several folders all take part. Per
record it prints: whether the task counts are equal, the words that are the same (header, run heads, registers; a word
only one side has is a difference), the fields of the decoded operations that are the same, whether the constant section
has Apple's SHA-256, what one would get by copying (the most alike other record; the most common word of each address),
our modelled work over Apple's, and every field that differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from records.reading import Compilation, Record, compile_record, materialiser, read_records
from records.reasons import reason
from records.words import Baselines, Difference, differences, equal_words, functional_fields, named_words
from records.work import Work, work

LEGEND = """\
tasks    ours/Apple's               words    fraction of all words that are Apple's
fields   of decoded operations      const    constant section by SHA-256 (weights: the record's are not known)
copied   words one gets from the most alike other record      common   from each address's most common word
work     ours over Apple's: bytes moved by tile DMA, kernel bytes     ms/op    compile time per MIL operation"""

OTHER_WEIGHTS = 16
"""Two sections of the same weights differ by fewer nonzero bytes, those of a table."""


@dataclass
class Result:
    """One record beside our compilation of it. `moved` and `kernels` are ratios, None where a side is nothing."""

    case: str
    family: str
    refusal: str
    tasks: tuple[int, int]
    words: tuple[int, int]
    fields: tuple[int, int]
    constants: str
    copied: float
    copied_from: str
    common: float
    work: tuple[Work | None, Work | None]
    milliseconds: float
    differing: list[Difference]

    @property
    def accepted(self) -> bool:
        return not self.refusal

    @property
    def tasks_equal(self) -> bool:
        return self.tasks[0] == self.tasks[1]

    def ratio(self, what: str) -> float | None:
        """Our `tasks`, `moved` or `kernels` over Apple's; None unless both are something."""
        ours, apples = self.work
        if ours is None or apples is None or not getattr(ours, what) or not getattr(apples, what):
            return None
        return float(getattr(ours, what) / getattr(apples, what))


def examine(record: Record, compilation: Compilation, baselines: Baselines) -> Result:
    """Everything about one record."""
    ours = [task.words for task in compilation.program.tasks] if compilation.program else []
    nearest, likeness = baselines.nearest(record)
    operations = sum(node.op != "const" for node in compilation.graph.nodes) if compilation.graph else 0
    return Result(
        record.name, record.family, compilation.refusal, (len(ours), len(record.tasks)),
        equal_words([named_words(words) for words in ours], [named_words(words) for words in record.tasks]),
        functional_fields(ours, record.tasks), compare_constants(record, compilation), likeness, nearest,
        baselines.commonest(record), (work(ours) if ours else None, work(record.tasks)),
        1e3 * compilation.seconds / max(1, operations), list(differences(ours, record.tasks)) if ours else [])


def compare_constants(record: Record, compilation: Compilation) -> str:
    """`same`: our constants, filled up with zeros to the recorded size, have the recorded hash. `weights`: they cannot,
    because the weights the record was made with are not the ones materialised: packing only moves and pads halfwords,
    so with them as many bytes are zero, but for a table."""
    if compilation.program is None:
        return "differ"
    ours = compilation.program.constants
    if hashlib.sha256(ours.ljust(record.constants_size, b"\0")).hexdigest() == record.constants_hash:
        return "same"
    nonzero = len(ours) - ours.count(0)
    other = "BLOBFILE" in record.mil and abs(nonzero - record.constants_nonzero) > OTHER_WEIGHTS
    return "weights" if other and len(ours) == record.constants_size else "differ"


def share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def mean(ratios: list[float]) -> float | None:
    """Geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def summary(results: list[Result]) -> dict[str, Any]:
    """Totals of some records."""
    words, fields = ([sum(getattr(r, what)[i] for r in results) for i in (0, 1)] for what in ("words", "fields"))
    whole = [r.words[1] for r in results]
    return {
        "records": len(results), "accepted": sum(r.accepted for r in results),
        "task_counts_equal": sum(r.tasks_equal for r in results), "words": share(*words), "fields": share(*fields),
        "constants_equal": sum(r.constants == "same" for r in results),
        "constants_known": sum(r.constants != "weights" for r in results),
        "all_words_equal": sum(r.words[0] == r.words[1] for r in results),
        "copied": sum(r.copied * n for r, n in zip(results, whole, strict=True)) / max(1, sum(whole)),
        "common": sum(r.common * n for r, n in zip(results, whole, strict=True)) / max(1, sum(whole)),
        "work": {what: mean([q for r in results if (q := r.ratio(what)) is not None])
                 for what in ("tasks", "moved", "kernels")},
        "milliseconds_per_operation": mean([r.milliseconds for r in results if r.milliseconds > 0]),
    }


def number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)


def print_result(result: Result, width: int) -> None:
    if not result.accepted:
        print(f"{result.case:{width}}  refused: {result.refusal}")
        return
    print(f"{result.case:{width}}  {result.tasks[0]:>3}/{result.tasks[1]:<3} {share(*result.words):7.2%} "
          f"{share(*result.fields):7.1%}  {result.constants:7} {result.copied:7.1%} "
          f"{result.common:7.1%}  {number(result.ratio('moved')):>5} {number(result.ratio('kernels')):>5} "
          f"{result.milliseconds:6.1f}")


def print_totals(title: str, results: list[Result], width: int) -> None:
    total = summary(results)
    print(f"{title:{width}}  {total['task_counts_equal']:>3}/{total['records']:<3} {total['words']:7.2%} "
          f"{total['fields']:7.1%}  {total['constants_equal']:>3}/{total['constants_known']:<3} {total['copied']:7.1%} "
          f"{total['common']:7.1%}  {number(total['work']['moved']):>5} {number(total['work']['kernels']):>5} "
          f"{number(total['milliseconds_per_operation'], '.1f'):>6}")


def text(value: Any) -> str:
    return "nothing" if value is None else f"{value:#x}" if isinstance(value, int) and value > 9 else str(value)


def print_differences(results: list[Result]) -> None:
    print("\nEvery field that differs (ours / Apple's)")
    for result in results:
        if result.differing:
            print(result.case)
        for task in dict.fromkeys(d.task for d in result.differing):
            print(f"  task {task}")
            for d in result.differing:
                if d.task == task:
                    print(f"    {d.field}: {text(d.ours)} / {text(d.apples)}")
    counts = Counter(name for r in results for name in {d.field for d in r.differing})
    print("\nFields that differ: records, field, why")
    for name, count in counts.most_common():
        print(f"{count:4d}  {name:40}  {reason(name)}")


def report(results: list[Result], brief: bool) -> None:
    """The tables, for people."""
    width = max(len(r.case) for r in results)
    head = (f"{'case':{width}}  tasks     words  fields  const    copied  common  moved  kern.  ms/op")
    print(f"{LEGEND}\n\n{head}")
    for result in results:
        print_result(result, width)
    families = defaultdict(list)
    for result in results:
        families[result.family].append(result)
    print(f"\n{'family (task counts equal / records)':{width}}{head[width:]}")
    for family in sorted(families):
        print_totals(family, families[family], width)
    print_totals("all", results, width)
    total = summary(results)
    print(f"\n{total['accepted']} of {total['records']} records accepted, task counts equal in "
          f"{total['task_counts_equal']}, {total['words']:.2%} of all words Apple's "
          f"({total['all_words_equal']} records word for word; copying gives {total['copied']:.2%}, "
          f"common words {total['common']:.2%}), constant sections equal in {total['constants_equal']} of the "
          f"{total['constants_known']} whose weights are known")
    print("work over Apple's in geometric mean (aim at most 1.0): " +
          ", ".join(f"{name} {number(total['work'][what], '.3f')}" for what, name in
                    (("tasks", "tasks"), ("moved", "bytes moved"), ("kernels", "kernel bytes"))))
    if not brief:
        print_differences(results)


def as_json(results: list[Result]) -> str:
    cases = [asdict(result) | {"ratios": {what: result.ratio(what) for what in ("tasks", "moved", "kernels")}}
             for result in results]
    return json.dumps({"summary": summary(results), "cases": cases}, indent=1, default=str)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", type=Path, help="folder with apple/oracles; may be repeated")
    parser.add_argument("--case", help="only records whose name contains this")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--brief", action="store_true", help="without the list of differing fields")
    arguments = parser.parse_args()
    named = os.environ.get("OPENANE_CORPUS")
    corpora = arguments.corpus or ([Path(named)] if named else [])
    folders = [folder for corpus in corpora if (folder := corpus / "apple" / "oracles").is_dir()]
    if not folders:
        print("parity: skipped, no records; set OPENANE_CORPUS or --corpus to a folder that has apple/oracles",
              file=sys.stderr)
        return 0
    records = list({r.name: r for folder in folders for r in read_records(folder)}.values())
    materialise = materialiser(next((f for f in folders if (f / "materialise.py").is_file()),
                                    Path(named or "") / "apple" / "oracles"))
    baselines = Baselines(records)
    chosen = [r for r in records if arguments.case is None or arguments.case in r.name]
    if not chosen:
        print(f"parity: no record's name contains {arguments.case!r}", file=sys.stderr)
        return 1
    results = [examine(record, compile_record(record, materialise), baselines) for record in chosen]
    if arguments.json:
        print(as_json(results))
    else:
        report(results, arguments.brief)
    return 0


if __name__ == "__main__":
    sys.exit(main())
