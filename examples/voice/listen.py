"""Says when somebody speaks in a WAV file, with Silero VAD on the engine, as it would in a stream.

    python examples/voice/listen.py recording.wav
    python examples/voice/listen.py --check         two words made by the example, beside onnxruntime
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

SPEECH = 0.5
SILENCE = 0.35
"""Speech begins at the first probability and goes on until one below the second."""


def main() -> int:
    """Prints from when to when somebody speaks; 1 when something is not installed."""
    options = arguments()
    missing = [name for name in ("onnx", *(["onnxruntime"] if options.check else []),
                                 *(["matplotlib"] if options.picture else [])) if find_spec(name) is None]
    if missing:
        print(f"this example needs {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        return 1
    import sound
    from detector import CHUNK, INSTALL, RATE, RuntimeDetector, VoiceDetector, model_file
    file = model_file()
    if file is None:
        print(f"the network is not installed: {INSTALL}", file=sys.stderr)
        return 1
    samples = sound.made() if options.recording is None else sound.read(options.recording)
    with VoiceDetector(file, options.device) as detector:
        start = time.perf_counter()
        chances = heard(samples, detector, CHUNK)
        each = (time.perf_counter() - start) / max(len(chances), 1)
        print(f"{len(detector.model.program.tasks)} tasks, {len(detector.model.host_operations)} operations on the "
              f"host, {each * 1000:.1f} ms for {CHUNK / RATE * 1000:.0f} ms of sound")
    for begin, end in spoken(chances):
        print(f"  speech from {begin * CHUNK / RATE:.2f} s to {end * CHUNK / RATE:.2f} s")
    if options.picture:
        picture(samples, chances, CHUNK / RATE, options.picture)
    if options.check:
        wanted = heard(samples, RuntimeDetector(file), CHUNK)
        print(f"largest difference from onnxruntime {np.abs(chances - wanted).max():.4f}, "
              f"{'the same' if spoken(chances) == spoken(wanted) else 'other'} words")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Says when somebody speaks.")
    parser.add_argument("recording", nargs="?", help="a WAV file; without one two words are made")
    parser.add_argument("--device", default="simulator?arithmetic=fast", help="where the network runs")
    parser.add_argument("--picture", help="write the sound and the probability of speech to this file")
    parser.add_argument("--check", action="store_true", help="compare with onnxruntime")
    return parser.parse_args()


def heard(samples: np.ndarray, detector: Callable[[np.ndarray], float], size: int) -> np.ndarray:
    """The probability of speech of each whole chunk, one after another."""
    return np.array([detector(samples[start:start + size]) for start in range(0, len(samples) - size + 1, size)])


def spoken(chances: np.ndarray) -> list[tuple[int, int]]:
    """First chunk of each stretch of speech, and the first after it."""
    found: list[tuple[int, int]] = []
    begin = None
    for place, chance in enumerate((*chances, 0.0)):
        if begin is None and chance >= SPEECH:
            begin = place
        elif begin is not None and chance < SILENCE:
            found.append((begin, place))
            begin = None
    return found


def picture(samples: np.ndarray, chances: np.ndarray, seconds: float, path: str) -> None:
    """The sound, the probability of speech, and what is taken for speech."""
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(9, 2.8), layout="constrained")
    length = len(chances) * seconds
    axes.plot(np.linspace(0, length, len(samples)), samples, color="#9aa7b8", linewidth=0.4, label="sound")
    axes.plot(np.arange(len(chances)) * seconds, chances, color="#1f5fbf", label="probability of speech")
    for begin, end in spoken(chances):
        axes.axvspan(begin * seconds, end * seconds, color="#f2b134", alpha=0.25)
    axes.set(xlabel="seconds", xlim=(0, length), ylim=(-0.4, 1.05))
    axes.legend(loc="center")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
