"""Where text is: boxes from the map of the detection network, in reading order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from networks import Network
from PIL import Image
from scipy.ndimage import binary_dilation, find_objects, label

LEVEL = 0.3
"""Probability from which on a pixel belongs to text."""
SURE = 0.5
"""Mean probability a box of text must have."""
GROWTH = 1.6
"""The network marks the core of a line: a box grows by this times its area over its circumference."""
SMALLEST = 5
"""Pixels of the network's map along the shorter side of a box."""
STEP = 32
"""Sides of the network's input are multiples of this."""

Box = tuple[int, int, int, int]
"""Left, top, right, bottom."""


def find(page: Image.Image, networks: Mapping[str, Network]) -> list[Box]:
    """Boxes of lines of text, from the top down, and from the left where lines share a row."""
    width, height = (max(STEP, round(side / STEP) * STEP) for side in page.size)
    pixels = np.asarray(page.resize((width, height), Image.Resampling.BILINEAR), np.float32) / 127.5 - 1
    chances = networks["detection"](pixels.transpose(2, 0, 1)[None, ::-1].copy())[0, 0]
    scale = page.width / width, page.height / height
    found = []
    parts, _ = label(binary_dilation(chances > LEVEL, np.ones((3, 3))), np.ones((3, 3)))
    for rows, columns in find_objects(parts):
        high, wide = rows.stop - rows.start, columns.stop - columns.start
        if min(high, wide) < SMALLEST or chances[rows, columns][1:-1, 1:-1].mean() < SURE:
            continue
        more = GROWTH * high * wide / (2 * (high + wide))
        found.append((round(max(columns.start - more, 0) * scale[0]), round(max(rows.start - more, 0) * scale[1]),
                      round(min(columns.stop + more, width) * scale[0]),
                      round(min(rows.stop + more, height) * scale[1])))
    return in_order(found)


def in_order(boxes: list[Box]) -> list[Box]:
    """Rows of boxes whose middles lie in each other, each row from the left."""
    rows: list[list[Box]] = []
    for box in sorted(boxes, key=lambda box: box[1] + box[3]):
        middle = (box[1] + box[3]) / 2
        if rows and rows[-1][0][1] < middle < rows[-1][0][3]:
            rows[-1].append(box)
        else:
            rows.append([box])
    return [box for row in rows for box in sorted(row)]
