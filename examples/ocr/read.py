"""Reads the text of an image with PP-OCR's three networks on the engine.

    python examples/ocr/read.py page.png
    python examples/ocr/read.py --check             a page of ten lines, beside onnxruntime
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from boxes import Box
    from networks import Network
    from PIL.Image import Image

HEIGHT = 48
"""Rows of pixels of what is recognised."""
WIDTHS = (160, 320, 480, 640, 960)
"""Columns the recognition is compiled for: a line is filled up to the next."""
TURNED = 0.9
"""How sure the network must be that a line stands on its head."""


def main() -> int:
    """Prints the lines; 1 when something is not installed, or `--check` finds a line that differs."""
    options = arguments()
    missing = [name for name, module in (("pillow", "PIL"), ("scipy", "scipy"), ("onnx", "onnx"),
                                         *([("onnxruntime", "onnxruntime"), ("matplotlib", "matplotlib")]
                                           if options.check else [])) if find_spec(module) is None]
    if missing:
        print(f"this example needs {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        return 1
    from networks import INSTALL, EngineNetworks, RuntimeNetworks, characters, model_folder
    from page import opened
    folder = model_folder()
    if folder is None:
        print(f"the networks are not installed: {INSTALL}", file=sys.stderr)
        return 1
    page = opened(options.image)
    known = characters(folder)
    with EngineNetworks(folder, options.device) as networks:
        start = time.perf_counter()
        lines = read(page, networks, known)
        seconds = time.perf_counter() - start
        tasks = sum(len(model.program.tasks) for model in networks.models.values())
        hosted = sum(len(model.host_operations) for model in networks.models.values())
        print(f"{len(networks.models)} programs, {tasks} tasks, {hosted} operations on the host, {seconds:.1f} s")
    for _, text in lines:
        print(f"  {text}")
    if options.picture:
        from page import picture
        picture(page, lines).save(options.picture)
    if not options.check:
        return 0
    others = read(page, RuntimeNetworks(folder), known)
    same = sum(text == other for (_, text), (_, other) in zip(lines, others, strict=False))
    print(f"{same} of {len(others)} lines are what onnxruntime reads")
    return int(len(lines) != len(others) or same != len(others))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Reads the text of an image.")
    parser.add_argument("image", nargs="?", help="the image; without one a page of ten lines is drawn")
    parser.add_argument("--device", default="simulator?arithmetic=fast", help="where the networks run")
    parser.add_argument("--picture", help="write the page with its boxes and what was read to this file")
    parser.add_argument("--check", action="store_true", help="compare with onnxruntime")
    return parser.parse_args()


def read(page: Image, networks: Mapping[str, Network], known: Sequence[str]) -> list[tuple[Box, str]]:
    """Boxes and their text: found, cut out, turned where a line stands on its head, recognised."""
    from boxes import find
    lines = []
    for box in find(page, networks):
        line = page.crop(box)
        turned = networks["direction"](pixels(line, (192,)))[0]
        if turned[1] > TURNED:
            line = line.rotate(180)
        text = spelled(networks["recognition"](pixels(line, WIDTHS))[0], known)
        if text.strip():
            lines.append((box, text))
    return lines


def pixels(line: Image, widths: Sequence[int]) -> np.ndarray:
    """[1, 3, 48, width] from -1 to 1, in the order blue, green, red; behind the line is 0."""
    natural = max(1, round(line.width * HEIGHT / line.height))
    width = next((each for each in widths if each >= natural), widths[-1])
    small = np.asarray(line.resize((min(natural, width), HEIGHT), 2), np.float32) / 127.5 - 1
    made = np.zeros((1, 3, HEIGHT, width), np.float32)
    made[0, :, :, :small.shape[1]] = small.transpose(2, 0, 1)[::-1]
    return made


def spelled(chances: np.ndarray, known: Sequence[str]) -> str:
    """The likeliest character of each place [places, characters]; one that goes on from place to place counts once."""
    best = chances.argmax(-1)
    begins = np.flatnonzero(np.diff(best, prepend=-1))
    return "".join(known[number] for number in best[begins])


if __name__ == "__main__":
    sys.exit(main())
