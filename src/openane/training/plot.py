"""A loss curve as an SVG: one line per training, the epochs' means over the steps, axes with round numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, isfinite, log10

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 360, 64, 40, 28, 16
COLOURS = ("#2563eb", "#dc2626", "#059669", "#7c3aed", "#d97706", "#0891b2")
Points = Sequence[tuple[float, float]]
MOST = 2000


def loss_plot(lines: Mapping[str, Points], title: str, across: str = "step", up: str = "loss") -> str:
    """The SVG's text; `lines` are (x, y) by name. Points that are not finite are left out, long lines thinned."""
    kept = {name: _thinned([point for point in line if isfinite(point[0]) and isfinite(point[1])])
            for name, line in lines.items()}
    points = [point for line in kept.values() for point in line] or [(0.0, 0.0)]
    x_axis, y_axis = ([p[i] for p in points] for i in (0, 1))
    x_ticks, y_ticks = ticks(min(x_axis), max(x_axis)), ticks(min(0.0, *y_axis), max(y_axis))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>']
    for tick in x_ticks:
        at = _across(tick, x_ticks)
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>')
    for tick in y_ticks:
        at = _up(tick, y_ticks)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e5e7eb"/>'
                     f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{escape(across)}</text>'
                 f'<text x="8" y="{TOP + 4}">{escape(up)}</text>')
    for number, (name, line) in enumerate(kept.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{_across(x, x_ticks):.1f},{_up(y, y_ticks):.1f}" for x, y in line)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{path}"/>'
                     f'<text x="{WIDTH - RIGHT}" y="{TOP + 14 * number + 4}" text-anchor="end" fill="{colour}">'
                     f'{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def ticks(low: float, high: float) -> list[float]:
    """Some round numbers that enclose a range: steps of 1, 2 or 5 times a power of ten."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** floor(log10(span / 5))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 6)
    first, last = floor(low / step), ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _across(x: float, marks: Sequence[float]) -> float:
    return LEFT + (x - marks[0]) / (marks[-1] - marks[0]) * (WIDTH - LEFT - RIGHT)


def _up(y: float, marks: Sequence[float]) -> float:
    return HEIGHT - BOTTOM - (y - marks[0]) / (marks[-1] - marks[0]) * (HEIGHT - BOTTOM - TOP)


def _thinned(line: Points) -> Points:
    """At most MOST points, each the mean of its neighbours."""
    if len(line) <= MOST:
        return line
    size = ceil(len(line) / MOST)
    groups = [line[start:start + size] for start in range(0, len(line), size)]
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]
