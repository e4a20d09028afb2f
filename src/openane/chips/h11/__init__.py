"""H11: the engine of A12, recognised only."""

from openane.chips.undescribed import UndescribedChip

CHIP = UndescribedChip("h11")

__all__ = ["CHIP"]
