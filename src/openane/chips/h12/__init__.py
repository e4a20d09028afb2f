"""H12: the engine of A13, recognised only."""

from openane.chips.undescribed import UndescribedChip

CHIP = UndescribedChip("h12")

__all__ = ["CHIP"]
