"""H14: limits, and what its tasks state beside what decides their results.

Evidence: the 45 recorded tasks of Apple's compiler for H14. What they do not show is H13's (inferred).
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.emit.policy import Frames, Hints, LogMasks
from openane.chips.h13.limits import LIMITS as H13_LIMITS
from openane.chips.h13.policy import POLICY as H13_POLICY
from openane.chips.h14.registers import STREAM_BANK
from openane.chips.runs import DENSE_HEAD

_COEFFICIENTS = H13_LIMITS.coefficients
LIMITS = replace(H13_LIMITS, kernel_width=32, kernel_height=32, addresses=1 << 42, first_task=16,
                 coefficients=replace(_COEFFICIENTS, table_apart=True, sparse=replace(_COEFFICIENTS.sparse, values=16)),
                 assumed=("padding", "stride", "kernel_width", "kernel_height", "kernel_memory", "l2_size"))

_MARKER = DENSE_HEAD.encode({"Address": STREAM_BANK.by_name["TileDMADst.Marker"][0], "Count": 1}), 0xDEAD

POLICY = replace(
    H13_POLICY, limits=LIMITS,
    patches=replace(H13_POLICY.patches, copies_bounded=False, small_unbiased=0x10000, turned_lanes=8),
    rings=replace(H13_POLICY.rings, copy_pads={2: 5, 3: 3, 4: 2}, own_pairs=True, second_step=0x400),
    hints=Hints(used_source={"CacheHint": 2, "CacheHintReuse": 14, "CacheHintNoReuse": 12}, idle_source={},
                read_again={"CacheHint": 14, "CacheHintNoReuse": 14}, read_earlier={"CacheHint": 12}, from_scratch={},
                to_scratch={"CacheHint": 15}, result=3, coefficients=2, stated=0),
    logs=LogMasks(events=(0x2A, 0x8, 0, 0x22), debug=(0xFFF868, 0xFFF868, 0xFFF800, 0xFFF868),
                  plain=(0xFFF868, 0x68, 0xFFF800, 0xFFF868)),
    estimate=replace(H13_POLICY.estimate, resident_elementwise=False),
    frames=Frames(constant={f"TileDMA{side}.DataSetId": 14
                            for side in ("Src.DMAConfig", "Src.SecondDMAConfig", "Dst.DMAConfig")},
                  runtime={"CacheHint": 4, "DataSetId": 14}, cache={}, second_apart=False, data_sets=None,
                  marker=_MARKER))
