"""What is known of a generation, in words, and the numbers Apple's files have for it."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = "not known; recognised by name only"
EMITTED = "decoded, encoded and simulated"


def frames(words: int) -> str:
    """What to say of tasks that lie one after another, with a header of so many words."""
    return (f"header of {words} words; dense and sparse runs of register writes, whose heads name the base-address "
            "slots")


@dataclass(frozen=True, slots=True)
class Facts:
    """`isa` is the number Apple's compiler has for the instruction set, `subtype` the CPU subtype in its files; neither
    grows with the generation. `chip` is the one that figures are given for where nobody names another. `tasks` and
    `operations` say what is known of them; `compiled`: programs are compiled for it; `driver`: the Linux driver runs
    them. `unknown_868` is what the program descriptor of its files holds there, `limited` whether a limit is stated,
    `task_events` how many events of each task are counted beside those its header names."""

    isa: int
    subtype: int
    chip: str
    tasks: str = UNKNOWN
    operations: str = UNKNOWN
    compiled: bool = False
    driver: bool = False
    unknown_868: int = 0
    limited: bool = False
    task_events: int = 0
