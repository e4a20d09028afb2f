"""H13: limits, from field widths (registers.py) and published figures (compiler limits of M1-era tools)."""

from openane.chips.chip import Limits

LIMITS = Limits(
    memory_alignment=64, l2_alignment=16, l2_size=1 << 21, kernel_memory=1 << 24, width=16384, height=16384,
    channels=65536, groups=8191, depth=16384, kernel_width=31, kernel_height=31, padding=31, stride=3,
    slots=32, cores=16)
