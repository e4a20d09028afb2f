"""Draws the plots of docs/performance.md, light and dark, from docs/performance.json and the table of docs/zoo.md.

    python benchmarks/plots.py

performance.json states for each of its tables the command that printed it and the day. Needs matplotlib (extra `docs`).
The same data make the same bytes.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DOCS = Path(__file__).parent.parent / "docs"
DATA = DOCS / "performance.json"
COLOURS = ("#4c78c8", "#e08a3c", "#4aa564", "#c85a7c", "#8a6fc0")
"""Of a plot's series, in order; each can be told from both backgrounds."""
INK = {"light": "#202020", "dark": "#e0e0e0"}
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "openane", "font.family": "sans-serif", "font.size": 10}
GUESSED = "//"
"""Hatching of what is extrapolated."""
ROW = re.compile(r"^\| [\w./-]+ \| \w+ \| \d+ \|[^|]*\| [\d.e-]+ \| [\d.e-]+ \| ([\d.]+) \|", re.MULTILINE)
"""A model's row of docs/zoo.md: its error over that in fp16."""

Table = dict[str, Any]


def chips(axes: Axes, table: Table) -> None:
    """Bars of modelled times, a group for each network."""
    networks, names = list(table["us"]), table["chips"]
    width = 0.8 / len(names)
    for number, chip in enumerate(names):
        places = [place + (number - (len(names) - 1) / 2) * width for place in range(len(networks))]
        axes.bar(places, [table["us"][network][number] / 1e3 for network in networks], width, label=chip,
                 color=COLOURS[number], hatch=GUESSED if chip in table["extrapolated"] else None, edgecolor="white",
                 linewidth=0)
    axes.set_xticks(range(len(networks)), networks, rotation=20, ha="right")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("ms for an inference, modelled")
    axes.legend(ncols=len(names), frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1))


def levels(axes: Axes, table: Table) -> None:
    """Bars of level 2 over level 0."""
    _ratios(axes, table["ratios"], "time of level 2 over level 0, modelled")


def errors(axes: Axes, table: Table) -> None:
    """How often which error over that in fp16 occurs."""
    found = zoo_errors()
    edges = [2 ** (step / 4) for step in range(-8, 22)]
    axes.hist(found, bins=edges, color=COLOURS[0])
    axes.set_xscale("log", base=2)
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 8, 16, 32], ["¼", "½", "1", "2", "4", "8", "16", "32"])
    axes.set_xlabel(f"error over PyTorch's in fp16, {len(found)} models")
    axes.set_ylabel("models")


def zoo_errors() -> list[float]:
    """The errors over those in fp16 that the tables of models state, below the summary."""
    _, _, models = (DOCS / "zoo.md").read_text().partition("\n## ")
    return [float(text) for text in ROW.findall(models)]


def beside(axes: Axes, table: Table) -> None:
    """Bars of the simulator's time over onnxruntime's."""
    _ratios(axes, table["ratios"], "an inference, times onnxruntime's")


def _ratios(axes: Axes, ratios: dict[str, float], label: str) -> None:
    axes.bar_label(axes.bar(list(ratios), list(ratios.values()), 0.5, color=COLOURS[0]), fmt="%.2g", fontsize=9)
    axes.axhline(1, color="gray", linewidth=0.8)
    axes.tick_params("x", rotation=20)
    axes.set_ylabel(label)


PLOTS: dict[str, Callable[[Axes, Table], None]] = {"chips": chips, "levels": levels, "errors": errors,
                                                   "simulator": beside}
"""Name of a plot to what draws it from the table of that name."""


def file_of(name: str, shade: str) -> Path:
    """Where a plot lies."""
    return DOCS / f"performance-{name}-{shade}.svg"


def drawn(name: str, shade: str, table: Table) -> str:
    """A plot as SVG."""
    keys = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    with mpl.rc_context(STYLE | dict.fromkeys(keys, INK[shade])):
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        axes = figure.add_subplot()
        axes.set_facecolor("none")
        axes.spines[["top", "right"]].set_visible(False)
        PLOTS[name](axes, table)
        text = StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return text.getvalue()


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> int:
    """Writes every plot, and prints how large each is and the means that the page states."""
    tables = json.loads(DATA.read_text())
    for name, shade in product(PLOTS, INK):
        text = drawn(name, shade, tables.get(name, {}))
        file_of(name, shade).write_text(text)
        print(f"{name}, {shade}: {len(text):,} bytes")
    for name in ("levels", "simulator"):
        print(f"{name}: geometric mean {mean(list(tables[name]['ratios'].values())):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
