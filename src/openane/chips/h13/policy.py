"""H13: tiles, rings, hints and idle values, as the recorded programs of Apple's compiler state them."""

from __future__ import annotations

from openane.chips.emit.policy import EstimateRules, Hints, IdleValues, LogMasks, PatchRules, Policy, RingRules
from openane.chips.h13.limits import LIMITS

POLICY = Policy(
    limits=LIMITS,
    patches=PatchRules(pixels=7, narrowest=3, streamed=3, small_rows=4, small_side=8, small_stream=0x20000,
                       copies_bounded=True, small_unbiased=0, turned_lanes=1, turned_channels=16, turned_flat=3,
                       few_rows=(),
                       planar_widths=(4, 9), planar_height=5, planar_pixels=(9, 8), staged_multiple=16,
                       staged_width=32),
    rings=RingRules(chained_rows=16, planar_rows=32, planar_width=512, neural_bytes=256, second_alignment=64,
                    narrowest=2, pads=((64, 3), (32, 2), (0, 0)), strided_pad=2, padded_patch=3),
    hints=Hints(used_source={"CacheHint": 8, "CacheHintReuse": 8, "CacheHintNoReuse": 3, "DependencyMode": 3},
                idle_source={"CacheHint": 8, "CacheHintReuse": 8, "CacheHintNoReuse": 8},
                read_again={"CacheHintReuse": 11, "CacheHintNoReuse": 11},
                read_earlier={"CacheHint": 0, "CacheHintReuse": 11},
                from_scratch={"CacheHint": 0, "CacheHintReuse": 9, "DependencyMode": 5},
                to_scratch={"CacheHintReuse": 3}, result=12, coefficients=2, stated=4),
    logs=LogMasks(events=(0x42A, 0x408, 0x400, 0x422), debug=(0xFFF86A, 0xFFF868, 0xFFF800, 0xFFF86A),
                  plain=(0x6A, 0x68, 0, 0x6A)),
    idle=IdleValues(binary_point=14, truncate=3, unused_stream=0x40, auxiliary_streams=4, palette_bits=8),
    # 34133 bytes a microsecond are the memory bandwidth of an A14: 2133 MHz, two transfers, 8 bytes
    estimate=EstimateRules(bytes_per_microsecond=34133, plane_nanoseconds=4.45, resident_plane_nanoseconds=2.3,
                           largest=0xFFFF))
