"""H12: the engine of A13, recognised only."""

from openane.chips.facts import Facts
from openane.chips.undescribed import UndescribedChip

CHIP = UndescribedChip("h12", Facts(isa=6, subtype=3, chip="a13"))

__all__ = ["CHIP"]
