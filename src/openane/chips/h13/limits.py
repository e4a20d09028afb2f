"""H13: limits, from field widths (registers.py), Apple's programs and published figures of M1-era tools."""

from openane.chips.coefficients import CoefficientFormat, SparseFormat
from openane.chips.lanes import LaneRules
from openane.chips.limits import Banks, BaseSlots, Limits
from openane.chips.table_format import TableFormat

CORES = 16

LIMITS = Limits(
    memory_alignment=64, l2_alignment=16, l2_size=1 << 21, kernel_memory=1 << 24, width=16384, height=16384,
    channels=65536, groups=8191, depth=16384, kernel_width=31, kernel_height=31, padding=31, stride=3,
    tasks=(1 << 16) - 1, addresses=1 << 32, task_alignment=16, first_task=0, burst=64, page=0x4000,
    streams_repeats=False, pairs=True, statistic=0x800,  # 0x400 and 0x2000 are on either side in the samples
    tile_width=16,
    banks=Banks(count=64, line=16, rows=16),
    slots=BaseSlots(text=0, constants=1, scratch=3, first_port=4, count=32),
    lanes=LaneRules(
        cores=CORES, most=16, small_most=32, small_side=8, kept=1 << 16, streamed=128, product_weights=32768,
        runtime=(8, 4, 2), split_width=8, split_rows=64, split_weights=1 << 20, block=8),
    coefficients=CoefficientFormat(
        cores=CORES, alignment=64, table_apart=False, table=TableFormat(128),
        sparse=SparseFormat(length=3, least_lanes=4, values=8, proved=3)))
