"""H13: the engine of A14 and M1."""

from __future__ import annotations

from openane.chips.arithmetic import Arithmetic
from openane.chips.facts import EMITTED, SHOWN_EARLY, Facts
from openane.chips.h13.policy import POLICY
from openane.chips.h13.registers import HEADER, STREAM_BANK
from openane.chips.h13.rules import RULES
from openane.chips.linked import LinkedChip, linked_format
from openane.chips.weight_forms import EARLY_FORMS, LATE_FORMS

LONGEST = 512  # words of a task: Header.Next.NextSize has nine bits

CHIP = LinkedChip(
    name="h13", format=linked_format(HEADER, STREAM_BANK, LONGEST, POLICY.limits.slots.scratch), policy=POLICY,
    alignments={"macos26": 0x100, "compat": 0x300}, rules=RULES,
    facts=Facts(isa=7, subtype=4, chip="m1", tasks="header of 10 words, linked; dense runs of register writes",
                operations=EMITTED, compiled=True, driver=True,
                shown=SHOWN_EARLY | {"sum of channels", "largest channel", "tensors of 8 bits"}, streamed=EARLY_FORMS,
                folded=LATE_FORMS - EARLY_FORMS),
    arithmetic=Arithmetic(crop_gain=True))

__all__ = ["CHIP"]
