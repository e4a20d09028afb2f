"""All published error fingerprints of real chips against the exact arithmetic, with the time each takes.

Needs $OPENANE_CORPUS; prints model value, published value and their relative difference, and the worst at the end.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path

from openane.simulator.arithmetic import direct_conv3x3, matrix_product, winograd_conv3x3

SLOWEST_LEVEL = 2


def main() -> int:
    corpus = os.environ.get("OPENANE_CORPUS")
    if not corpus:
        print("fingerprints: skipped, OPENANE_CORPUS is not set")
        return 0
    spec = importlib.util.spec_from_file_location("fingerprints", Path(corpus) / "silicon" / "fingerprints.py")
    if spec is None or spec.loader is None:
        print(f"fingerprints: {corpus} holds no silicon/fingerprints.py")
        return 1
    recipes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipes)
    start = time.perf_counter()
    worst = recipes.check(matrix_product, direct_conv3x3, winograd_conv3x3, level=SLOWEST_LEVEL)
    print(f"fingerprints: worst relative difference {worst:.1e} over {len(recipes.CASES)} cases "
          f"in {time.perf_counter() - start:.0f} s")
    return 0 if worst < 1e-12 else 1


if __name__ == "__main__":
    sys.exit(main())
