"""H15: limits, and what its tasks state beside what decides their results.

Evidence: the 32 recorded tasks of Apple's compiler for H15. What they do not show is H14's (inferred).
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.emit.policy import Frames
from openane.chips.h14.policy import LIMITS as H14_LIMITS
from openane.chips.h14.policy import POLICY as H14_POLICY

LIMITS = replace(H14_LIMITS, slots=replace(H14_LIMITS.slots, first_port=6, data_set=4), streams_repeats=True,
                 assumed=(*H14_LIMITS.assumed, "width", "height", "depth", "groups"))

POLICY = replace(
    H14_POLICY, limits=LIMITS,
    patches=replace(H14_POLICY.patches, turned_flat=0),
    rings=replace(H14_POLICY.rings, own_second=True),
    logs=replace(H14_POLICY.logs, high=(3, 0, 0, 3)),
    # 51.2 GB/s are the memory bandwidth of an A16: 3200 MHz, two transfers, 8 bytes
    estimate=replace(H14_POLICY.estimate, bytes_per_microsecond=51200, streamed_vectors=False),
    frames=Frames(constant={}, runtime={"CacheHint": 4},
                  cache={"CacheDMA.Control.Enable": 1, "CacheDMA.Control.EarlyTerm": 1, "CacheDMA.Prefetch.Low": 160,
                         "CacheDMA.Prefetch.High": 160, "CacheDMA.Prefetch2.Sieve": 0xE0,
                         "CacheDMA.DataSet.IdAndSize": 0, "CacheDMA.EarlyTerm34.Fourth": 127,
                         "CacheDMA.Backoff.Enable": 1, "CacheDMA.Backoff.Min": 7, "CacheDMA.Backoff.High": 0x2001},
                  second_apart=True, data_sets=LIMITS.slots.data_set))
