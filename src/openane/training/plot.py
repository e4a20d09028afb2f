"""A loss curve as an SVG, drawn by matplotlib: one line per training, the losses over the steps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from io import BytesIO

import numpy as np

from openane.errors import AneError
from openane.version import pip_line

Points = Sequence[tuple[float, float]]
MOST = 2000
INCHES = (7.2, 3.6)


def require() -> None:
    """AneError with the pip line where matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise AneError("the loss curve of an output folder is drawn by matplotlib, which is not installed: "
                       f"{pip_line('train')}")


def loss_plot(lines: Mapping[str, Points], title: str, across: str = "step", up: str = "loss") -> bytes:
    """The SVG; `lines` are (x, y) by name. Points that are not finite are left out, long lines thinned."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(INCHES, layout="constrained")
    axes = figure.subplots()
    axes.update_datalim([(0, 0)], updatex=False)  # a loss is seen against 0
    for name, line in lines.items():
        axes.plot(*_thinned(line).T, label=name)
    axes.set_title("".join(each if each.isprintable() else "?" for each in title), parse_math=False)
    axes.set(xlabel=across, ylabel=up)
    axes.grid(visible=True, axis="y", alpha=0.4)
    axes.legend()
    drawn = BytesIO()
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none", "svg.hashsalt": ""}):
        warnings.simplefilter("ignore")  # of letters its own fonts lack: whoever shows the picture has them
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()


def _thinned(line: Points) -> np.ndarray:
    """The finite points [points, 2]; of more than MOST the means of neighbours."""
    points = np.asarray(line, np.float64).reshape(-1, 2)
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) <= MOST:
        return points
    return np.array([group.mean(axis=0) for group in np.array_split(points, MOST)])
