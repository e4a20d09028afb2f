"""How near our compiler is to Apple's: the MIL of every record of Apple's compiler, compiled here, word by word.

    python benchmarks/parity.py [--corpus DIR]... [--generation NAME]... [--case NAME] [--json] [--brief]

Records are looked for in DIR/apple/oracles (H13) and DIR/apple/oracles_h14 and so on, by default under $OPENANE_CORPUS;
of several folders all take part. Each generation's are compiled for it and reported apart; JSON has the oldest's at the
top. Per record it prints: whether the task counts are equal, the words that are the same (header, run heads, registers;
a word only one side has is a difference), the fields of the decoded operations that are the same, whether the constant
section (and the kernel section) has Apple's SHA-256, what one would get by copying (the most alike other record; the
most common word of each address), our modelled work over Apple's, and every field that differs. Per generation it
prints what share of the words of program descriptors and their trailers are Apple's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from records.descriptors import equal_descriptor_words
from records.reading import OLDEST, Compilation, Record, compile_record, materialiser, read_record
from records.reasons import reason
from records.words import Baselines, Difference, differences, equal_words, functional_fields, named_words
from records.work import Work, work

from openane.chips import compiled_generations, get_chip
from openane.engine.forms import forms
from openane.errors import AneError
from openane.formats import write_hwx

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
    descriptor: tuple[int, int]
    constants: str
    constants_reason: str
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
    chip = get_chip(record.generation)
    ours = [task.words for task in compilation.program.tasks] if compilation.program else []
    nearest, likeness = baselines.nearest(record)
    operations = sum(node.op != "const" for node in compilation.graph.nodes) if compilation.graph else 0
    constants = compare_constants(record, compilation)
    return Result(
        record.name, record.family, compilation.refusal, (len(ours), len(record.tasks)),
        equal_words([named_words(words, chip) for words in ours], [named_words(words, chip) for words in record.tasks]),
        functional_fields(ours, record.tasks, chip), compare_descriptor(record, compilation),
        constants, constants_reason(compilation) if constants == "differ" else "", likeness, nearest,
        baselines.commonest(record), (work(ours, chip) if ours else None, work(record.tasks, chip)),
        1e3 * compilation.seconds / max(1, operations), list(differences(ours, record.tasks, chip)) if ours else [])


def compare_descriptor(record: Record, compilation: Compilation) -> tuple[int, int]:
    """Words of the program descriptor that are Apple's, and how many the record states; none of what was refused."""
    if compilation.program is None:
        return 0, 0
    return equal_descriptor_words(record.descriptor, write_hwx(compilation.program))


def compare_constants(record: Record, compilation: Compilation) -> str:
    """`same`: our constants, filled up with zeros to the recorded size, have the recorded hash. `weights`: they cannot,
    because the weights the record was made with are not the ones materialised: packing only moves and pads halfwords,
    so with them as many bytes are zero, but for a table."""
    if compilation.program is None:
        return "differ"
    program = compilation.program
    first = program.kernel_starts[0] if program.kernel_starts else len(program.constants)
    ours, kernels = bytes(program.constants[:first]), bytes(program.constants[first:])
    if record.kernels is not None and padded_hash(kernels, record.kernels[0]) != record.kernels[1]:
        return "differ"
    if padded_hash(ours, record.constants_size) == record.constants_hash and (record.kernels or not kernels):
        return "same"
    nonzero = len(ours) - ours.count(0)
    other = "BLOBFILE" in record.mil and abs(nonzero - record.constants_nonzero) > OTHER_WEIGHTS
    return "weights" if other and len(ours) == record.constants_size else "differ"


def constants_reason(compilation: Compilation) -> str:
    """Why a constant section differs, as far as it is known."""
    program = compilation.program
    operations = [] if program is None else [get_chip(program.chip).operation(task.words) for task in program.tasks]
    if "table of a function" in forms(operations):
        return "a table: records do not state Apple's values, ours are fitted to the function"
    return "packed otherwise"


def padded_hash(data: bytes, size: int) -> str:
    """SHA-256 of bytes filled up with zeros to a size."""
    return hashlib.sha256(data.ljust(size, b"\0")).hexdigest()


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
        "descriptors": share(*(sum(r.descriptor[i] for r in results) for i in (0, 1))),
        "descriptors_equal": sum(r.descriptor[0] == r.descriptor[1] > 0 for r in results),
        "descriptors_known": sum(r.descriptor[1] > 0 for r in results),
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
    print("\nConstant sections that differ: case, why")
    for result in results:
        if result.constants_reason:
            print(f"{result.case}  {result.constants_reason}")
    print("\nFields that differ: records, field, why")
    for name, count in counts.most_common():
        print(f"{count:4d}  {name:40}  {reason(name)}")


def report(results: list[Result], brief: bool) -> None:
    """The tables, for people."""
    width = max(len(r.case) for r in results)
    head = (f"{'case':{width}}  tasks     words  fields  const    copied  common  moved  kern.  ms/op")
    print(f"{head}")
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
    if total["descriptors_known"]:
        print(f"{total['descriptors']:.2%} of the words of program descriptors and their trailers Apple's, all of them "
              f"in {total['descriptors_equal']} of {total['descriptors_known']} records")
    print("work over Apple's in geometric mean (aim at most 1.0): " +
          ", ".join(f"{name} {number(total['work'][what], '.3f')}" for what, name in
                    (("tasks", "tasks"), ("moved", "bytes moved"), ("kernels", "kernel bytes"))))
    if not brief:
        print_differences(results)


def document(results: list[Result]) -> dict[str, Any]:
    """The results as plain data."""
    cases = [asdict(result) | {"ratios": {what: result.ratio(what) for what in ("tasks", "moved", "kernels")}}
             for result in results]
    return {"summary": summary(results), "cases": cases}


def folders_of(corpora: list[Path], generations: list[str]) -> dict[str, list[Path]]:
    """The folders with records of each generation that is asked for, by default of all."""
    wanted = generations or compiled_generations()
    found = {name: [folder for corpus in corpora for folder in (
        corpus / "apple" / ("oracles" if name == OLDEST else f"oracles_{name}"),) if folder.is_dir()]
        for name in wanted}
    return {name: folders for name, folders in found.items() if folders}


def examined(folders: list[Path], generation: str, case: str | None,
             materialise: Callable[[str, str], None]) -> list[Result]:
    """Every record of a generation whose name contains `case`. One that cannot be read is told, not compared."""
    records = {}
    for path in (path for folder in folders for path in sorted(folder.rglob("*.json"))):
        try:
            record = read_record(path)
        except (AneError, KeyError, ValueError, TypeError, StopIteration) as error:
            print(f"parity: {path.name} is no record that can be read: {error!r}", file=sys.stderr)
            continue
        records[record.name] = record
    baselines = Baselines(list(records.values()), get_chip(generation))
    return [examine(record, compile_record(record, materialise), baselines) for record in records.values()
            if case is None or case in record.name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", type=Path, help="folder with apple/oracles; may be repeated")
    parser.add_argument("--generation", action="append", default=[], choices=compiled_generations(),
                        help="only records of this generation; may be repeated (default: all there are)")
    parser.add_argument("--case", help="only records whose name contains this")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--brief", action="store_true", help="without the list of differing fields")
    arguments = parser.parse_args()
    named = os.environ.get("OPENANE_CORPUS")
    corpora = arguments.corpus or ([Path(named)] if named else [])
    folders = folders_of(corpora, arguments.generation)
    if not folders:
        print("parity: skipped, no records; set OPENANE_CORPUS or --corpus to a folder that has apple/oracles",
              file=sys.stderr)
        return 0
    places = [*(folder for each in folders.values() for folder in each), *(c / "apple" / "oracles" for c in corpora)]
    materialise = materialiser(next((f for f in places if (f / "materialise.py").is_file()),
                                    Path(named or "") / "apple" / "oracles"))
    found = {name: results for name, each in folders.items()
             if (results := examined(each, name, arguments.case, materialise))}
    if not found:
        print(f"parity: no record's name contains {arguments.case!r}", file=sys.stderr)
        return 1
    if arguments.json:
        documents = {name: document(results) for name, results in found.items()}
        oldest = next(iter(documents.values()))
        print(json.dumps({**oldest, "generations": documents}, indent=1, default=str))
        return 0
    print(LEGEND)
    for name, results in found.items():
        print(f"\n{name.upper()}")
        report(results, arguments.brief)
    return 0


if __name__ == "__main__":
    sys.exit(main())
