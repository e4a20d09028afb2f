"""Trains a small classifier in a process of its own, for tests that end it: FOLDER, where it goes on from."""

from __future__ import annotations

import sys
from pathlib import Path

from support.trainings import endless, training

from openane.training.journal import Journal

EVERY = 3
"""Steps between checkpoints."""


def main(folder: Path) -> None:
    """Goes on from the last checkpoint; a line per event."""
    with training(endless(folder, EVERY), folder) as made:
        made.resume()
        journal = Journal(folder, made.state.step)
        for event in made.run():
            journal.write(event)
            print(event["event"], event["step"], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
