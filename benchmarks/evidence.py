"""Of which MIL operations records of Apple's compiler show every task, by generation: the page docs/evidence.md.

    python benchmarks/evidence.py [--write]

One small graph of each operation is compiled for every generation, its tasks are decoded, and their forms (see
openane.engine.forms) compared with those that records of the generation have. Without --write the page is printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.properties import drawn_alone
from support.random_operands import TABLE

from openane.chips import compiled_generations, get_chip
from openane.compiler import compile
from openane.engine.forms import FORMS, forms
from openane.errors import UnsupportedError
from openane.graph import Graph

PAGE = Path(__file__).parents[1] / "docs" / "evidence.md"
SEEDS = range(17, 25)
HEAD = """\
# Evidence by operation

Of every MIL operation one small program: the forms of its tasks on any generation, the generations whose records of
Apple's compiler have all of them, and for the others what is carried over from a generation that has a record, or
composed where none has. [generations.md](generations.md) says which records have which form. What other shapes and
settings of an operation become may have more forms: `ane compile --dump` shows them.

No program that was compiled here has run on hardware: all of it is untried there.

| operation | forms of its tasks | records show all for | carried over |
|---|---|---|---|
"""
FOOT = """
This page is generated: `python benchmarks/evidence.py --write`.
"""


@dataclass(frozen=True, slots=True)
class OperationForms:
    """The forms of an operation's tasks, by generation; empty where nothing of it runs."""

    name: str
    found: Mapping[str, frozenset[str]]

    @property
    def used(self) -> list[str]:
        """The forms on any generation."""
        return [form for form in FORMS if any(form in each for each in self.found.values())]

    def missing(self, generation: str) -> list[str]:
        """Those that no record of the generation shows."""
        return [form for form in FORMS if form in self.found[generation] - get_chip(generation).facts.shown]

    @property
    def row(self) -> str:
        """Its line of the page."""
        lacking: dict[str, list[str]] = {}
        for generation in self.found:
            if missing := ", ".join(self.missing(generation)):
                lacking.setdefault(missing, []).append(generation)
        shown = [generation for generation in self.found if not self.missing(generation)]
        carried = "; ".join(f"{', '.join(names)}: {what}" for what, names in lacking.items())
        used = "; ".join(self.used) or "nothing runs"
        return f"| {self.name} | {used} | {', '.join(shown) if shown and self.used else '-'} | {carried or '-'} |"


def page() -> str:
    """The page."""
    return HEAD + "\n".join(each.row for each in found()) + "\n" + FOOT


def found() -> Iterator[OperationForms]:
    """Every operation, by name."""
    for name in sorted(TABLE):
        graph = of_fp16(name)
        yield OperationForms(name, {generation: compiled_forms(graph, generation)
                                    for generation in compiled_generations()})


def of_fp16(name: str) -> Graph:
    """A graph of an operation that takes no integers, where some seed draws one."""
    graphs = [drawn_alone(name, seed) for seed in SEEDS]
    return next((graph for graph in graphs if all(value.dtype.startswith("fp") for value in graph.inputs)), graphs[0])


def compiled_forms(graph: Graph, generation: str) -> frozenset[str]:
    """The forms of the tasks a graph becomes; none where it is refused."""
    chip = get_chip(generation)
    try:
        programs = compile(graph, generation).programs
    except UnsupportedError:
        return frozenset()
    return forms([chip.operation(task.words) for program in programs for task in program.tasks])


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(PAGE.parents[1])}")
    options = parser.parse_args()
    if options.write:
        PAGE.write_text(page())
    else:
        sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
