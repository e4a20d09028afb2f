"""Whether what holds for compiled graphs holds on every generation, over as many random graphs as one likes.

    python benchmarks/properties.py [GENERATION]... [--examples N] [--seed N]

For each generation: every operation alone, with operands drawn anew and shapes that are long along one axis; N graphs
of a few operations drawn from all of them; N graphs of many small ones with values that have several readers. Each is
compiled, verified, run in fast arithmetic (alone in exact) and held to the operations' references. Prints how many were
held, how many the engine refuses (dynamic indices, what does not fit an engine program), and every failure.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from openane.chips import compiled_generations
from openane.graph import Graph

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.properties import drawn, drawn_alone, hold
from support.random_operands import TABLE
from support.random_values import SMALL, graphs

EXAMPLES = 100
MANY = 10
"""Operations of a graph with values that have several readers."""
Example = tuple[str, str, Graph, str]
"""Which property it is of, what it is called, the graph, the arithmetic."""


def examples(number: int, seed: int) -> Iterator[Example]:
    """Every example; `seed` decides which."""
    for op in sorted(TABLE):
        for wide in (False, True):
            yield "alone", f"{op}{' wide' * wide} {seed}", drawn_alone(op, seed, wide=wide), "exact"
    for place in range(seed, seed + number):
        wide = place % 3 == 0
        yield "together", f"graph {place}", drawn(1000 * place, 2 + place % 3, wide=wide), "fast"
    for place, graph in enumerate(_with_readers(number, seed)):
        yield "many readers", f"graph {place} of {seed}", graph, "fast"


def _with_readers(number: int, seed: int) -> list[Graph]:
    """Graphs of small operations, of which tests let hypothesis find the smallest that fails."""
    found: list[Graph] = []

    @seeded(seed)
    @settings(max_examples=number, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))
    @given(graphs(SMALL, MANY))
    def keep(graph: Graph) -> None:
        found.append(graph)

    keep()
    return found


def held(target: str, given: Iterator[Example], say: Callable[[str], None]) -> dict[str, Counter[str]]:
    """Counts of a generation by property: held, refused, failed."""
    counts: dict[str, Counter[str]] = {}
    for place, (kind, name, graph, arithmetic) in enumerate(given):
        count = counts.setdefault(kind, Counter())
        try:
            with np.errstate(all="ignore"):
                count["held" if hold(graph, place, arithmetic, target) else "refused"] += 1
        except Exception as error:
            count["failed"] += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            say(f"{target}: {kind}, {name}, {[node.op for node in graph.nodes]}: {type(error).__name__} in "
                f"{Path(last.filename).name}:{last.lineno}: {' '.join(str(error).split())[:300]}")
    return counts


def main() -> int:
    """Prints the counts; 1 when anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generations", nargs="*", metavar="GENERATION", help="by default all")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="graphs of each kind (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="other examples for another number")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.generations) - set(compiled_generations()))
    if unknown:
        parser.error(f"{', '.join(unknown)}: programs are compiled for {', '.join(compiled_generations())}")
    failed = 0
    for target in arguments.generations or compiled_generations():
        start = time.perf_counter()
        counts = held(target, examples(arguments.examples, arguments.seed), lambda line: print(line, flush=True))
        for kind, count in counts.items():
            print(f"properties, {target}: {kind}: {count.total()} graphs, {count['held']} held, {count['refused']} "
                  f"refused, {count['failed']} failed", flush=True)
            failed += count["failed"]
        print(f"properties, {target}: {time.perf_counter() - start:.0f} s", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
