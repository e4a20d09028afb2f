"""H40, a generation that does not exist: H13 under other addresses, slots, header and alignments."""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h40.registers import HEADER, STREAM_BANK

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import Facts
from openane.chips.h13 import POLICY as H13_POLICY
from openane.chips.h13.rules import RULES
from openane.chips.limits import BaseSlots
from openane.chips.linked import LinkedChip, linked_format

SLOTS = BaseSlots(text=2, constants=7, scratch=5, first_port=11, count=32)
H13 = H13_POLICY.limits
LIMITS = replace(H13, memory_alignment=128, l2_alignment=32, l2_size=3 << 20, slots=SLOTS, task_alignment=64,
                 coefficients=replace(H13.coefficients, alignment=128))

CHIP = LinkedChip(
    name="h40", format=linked_format(HEADER, STREAM_BANK, 512, SLOTS.scratch),
    policy=replace(H13_POLICY, limits=LIMITS), alignments={"macos26": 0x400}, rules=RULES, arithmetic=Arithmetic(),
    facts=Facts(isa=40, subtype=40, chip="", tasks="H13's", operations="decoded, encoded and simulated", compiled=True))
