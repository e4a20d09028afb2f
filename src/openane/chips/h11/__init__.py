"""H11: the engine of A12, recognised only."""

from openane.chips.facts import Facts
from openane.chips.undescribed import UndescribedChip

CHIP = UndescribedChip("h11", Facts(isa=5, subtype=1, chip="a12"))

__all__ = ["CHIP"]
