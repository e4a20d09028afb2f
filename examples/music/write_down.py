"""Writes down the notes of a piece of music, with Basic Pitch on the engine.

    python examples/music/write_down.py piece.wav --midi piece.mid
    python examples/music/write_down.py --check         a tune the example plays, beside onnxruntime
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from notes import Note


def main() -> int:
    """Prints the notes; 1 when something is not installed, or `--check` finds others."""
    options = arguments()
    missing = [name for name in ("onnx", *(["onnxruntime"] if options.check else []),
                                 *(["matplotlib"] if options.picture else [])) if find_spec(name) is None]
    if missing:
        print(f"this example needs {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        return 1
    import notes
    import sound
    from pitches import INSTALL, RATE, WINDOW, EngineNetwork, heard, model_file, runtime_network
    file = model_file()
    if file is None:
        print(f"the network is not installed: {INSTALL}", file=sys.stderr)
        return 1
    samples = sound.made() if options.piece is None else sound.read(options.piece)
    with EngineNetwork(file, options.device) as network:
        start = time.perf_counter()
        frames = heard(samples, network)
        print(f"{len(network.model.program.tasks)} tasks, {len(network.model.host_operations)} operations on the host, "
              f"{time.perf_counter() - start:.1f} s for {len(samples) / RATE:.1f} s of music, "
              f"{WINDOW / RATE:.1f} s at a time")
    written = notes.found(*frames)
    for note in written:
        print(f"  {note.name:4} {note.seconds[0]:6.2f} s to {note.seconds[1]:5.2f} s")
    if options.midi:
        Path(options.midi).write_bytes(notes.midi(written))
    if options.picture:
        picture(frames[0], written, options.picture)
    if not options.check:
        return 0
    wanted = heard(samples, runtime_network(file))
    others = notes.found(*wanted)
    far = max(np.abs(ours - theirs).max() for ours, theirs in zip(frames, wanted, strict=True))
    same = [(note.key, note.begin) for note in written] == [(note.key, note.begin) for note in others]
    print(f"{'the same notes' if same else 'other notes'} as onnxruntime; probabilities differ by at most {far:.4f}")
    return int(not same)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes down the notes of a piece of music.")
    parser.add_argument("piece", nargs="?", help="a WAV file; without one a tune is played")
    parser.add_argument("--midi", help="write the notes to this file")
    parser.add_argument("--device", default="simulator?arithmetic=fast", help="where the network runs")
    parser.add_argument("--picture", help="write what sounds, and the notes, to this file")
    parser.add_argument("--check", action="store_true", help="compare with onnxruntime")
    return parser.parse_args()


def picture(sounding: np.ndarray, written: list[Note], path: str) -> None:
    """The keys over time: how likely each sounds, and the notes as boxes."""
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot
    from notes import LOWEST
    from pitches import FRAME, RATE
    figure, axes = pyplot.subplots(figsize=(9, 3.2), layout="constrained")
    length = len(sounding) * FRAME / RATE
    axes.imshow(sounding.T, origin="lower", aspect="auto", cmap="Blues",
                extent=(0, length, LOWEST - 0.5, LOWEST + sounding.shape[1] - 0.5))
    for note in written:
        begin, end = note.seconds
        axes.add_patch(pyplot.Rectangle((begin, note.key - 0.5), end - begin, 1, fill=False, edgecolor="#d2452f"))
        axes.text(begin + 0.02, note.key + 0.8, note.name, color="#d2452f", fontsize=8)
    keys = [note.key for note in written] or [60]
    axes.set(xlabel="seconds", ylabel="key", ylim=(min(keys) - 5, max(keys) + 5))
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
