"""What is known of each generation, in words, and its number as an instruction set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Facts:
    """`isa` is the number Apple's compiler has for the instruction set; it does not grow with the generation."""

    isa: int
    tasks: str
    operations: str
    compiled: bool = False


_FRAMES = "header of {} words; dense and sparse runs of register writes, whose heads name the base-address slots"
_DECODED = "decoded where records of Apple's compiler show the fields to do what h13's do"
_UNKNOWN = "not known; recognised by name only"

FACTS: dict[str, Facts] = {
    "h11": Facts(5, _UNKNOWN, _UNKNOWN),
    "h12": Facts(6, _UNKNOWN, _UNKNOWN),
    "h13": Facts(7, "header of 10 words, linked; dense runs of register writes",
                 "decoded, encoded and simulated", compiled=True),
    "h14": Facts(11, _FRAMES.format(8), _DECODED),
    "h15": Facts(8, _FRAMES.format(8), _DECODED),
    "h16": Facts(17, _FRAMES.format(9), _DECODED),
    "h17": Facts(19, _FRAMES.format(9), _DECODED),
    "h18": Facts(20, _FRAMES.format(9), _DECODED),
}
