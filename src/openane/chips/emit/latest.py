"""Finds the task that was the last to write given bytes, without going through all tasks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Latest:
    """Remembers for every byte the latest task that wrote it. Writes are told in the order of the tasks."""

    def __init__(self) -> None:
        self._starts: list[int] = [0]
        self._tasks: list[int | None] = [None]  # who wrote what lies from a start to the next one

    def write(self, low: int, high: int, task: int) -> None:
        """Task number `task` writes the bytes from `low` to before `high`."""
        first, end = bisect_left(self._starts, low), bisect_left(self._starts, high)
        behind = self._tasks[end - 1]
        whole = end < len(self._starts) and self._starts[end] == high
        self._starts[first:end] = [low] if whole else [low, high]
        self._tasks[first:end] = [task] if whole else [task, behind]

    def over(self, low: int, high: int) -> int | None:
        """The latest task that wrote one of the bytes from `low` to before `high`, or None."""
        known = self._tasks[max(0, bisect_right(self._starts, low) - 1):bisect_left(self._starts, high)]
        return max((task for task in known if task is not None), default=None)
