"""Magika on the simulator beside onnxruntime: the label of a hundred files and more, of as many kinds as there are.

    python benchmarks/file_kinds.py [FOLDER]...

Files are those of the Python that runs this, of its packages, and of the folders that are named: per label that
onnxruntime gives, the two it is surest of. The engine's arithmetic is exact. Exit code 1 where a label differs, or its
score by more than 0.05. Needs the packages magika and onnxruntime.
"""

from __future__ import annotations

import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "files"))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from content import PACKAGE, EngineNetwork, ends_of, labels, model_folder, runtime_network

EACH = 2
"""Files of a label."""
MOST = 20000
"""Files that are looked at."""
PER_SUFFIX = 40
"""Files of one suffix that are looked at: their labels repeat."""
NEAR = 0.05
DEVICE = "simulator?arithmetic=exact"


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    folder = model_folder()
    if folder is None:
        print(f"{PACKAGE} is not installed: pip install {PACKAGE}", file=sys.stderr)
        return 2
    names, reference = labels(folder), runtime_network(folder)
    found: dict[str, list[tuple[float, Path]]] = defaultdict(list)
    for path in files([Path(text) for text in arguments] or
                      [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "scripts")]):
        scores = reference(ends_of(path.read_bytes()))
        best = int(scores.argmax())
        found[names[best]].append((float(scores[best]), path))
    chosen = [path for label in sorted(found) for _, path in sorted(found[label], reverse=True)[:EACH]]
    furthest, wrong = 0.0, 0
    with EngineNetwork(folder, DEVICE) as engine:
        for path in chosen:
            ends = ends_of(path.read_bytes())
            ours, theirs = engine(ends), reference(ends)
            best = int(theirs.argmax())
            distance = abs(float(ours[best]) - float(theirs[best]))
            furthest = max(furthest, distance)
            if int(ours.argmax()) != best or distance > NEAR:
                wrong += 1
                print(f"file_kinds  {path.name}: {names[best]} {theirs[best]:.3f}, here {names[int(ours.argmax())]} "
                      f"{ours.max():.3f}")
    print(f"file_kinds  {len(chosen)} files of {len(found)} kinds, {len(chosen) - wrong} as onnxruntime says; "
          f"largest difference of a score {furthest:.4f}")
    return int(wrong > 0)


def files(folders: Sequence[Path]) -> Iterator[Path]:
    """Files that are not tiny, a few of each suffix."""
    seen: dict[str, int] = defaultdict(int)
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if sum(seen.values()) >= MOST:
                return
            try:
                usable = path.is_file() and not path.is_symlink() and 16 <= path.stat().st_size < 1 << 26
            except OSError:
                continue
            if usable and seen[path.suffix] < PER_SUFFIX:
                seen[path.suffix] += 1
                yield path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
