"""Names of what is written into a file, where no two may be the same."""

from __future__ import annotations


def untaken(name: str, taken: set[str]) -> str:
    """`name`, or with a number behind it when it is taken; it is from now on."""
    chosen, count = name, 0
    while chosen in taken:
        count += 1
        chosen = f"{name}_{count}"
    taken.add(chosen)
    return chosen
