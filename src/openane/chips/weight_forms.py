"""Forms in which weights can be stored, and what becomes of each on its way to the engine of a generation.

Two things are known apart: what a generation's engine reads as it is, from published studies of programs that Apple's
compiler made; and what programs of this compiler hold. A form whose bytes in the engine's streams no record shows is
turned to fp16 when a model is compiled: it makes the model's file smaller, not what the engine reads.
"""

from __future__ import annotations

from enum import StrEnum


class WeightForm(StrEnum):
    """How a weight is stored."""

    INT8 = "int8"          # 8 bits each, a scale for every channel, no offset
    INT8_BLOCKS = "int8-blocks"  # 8 bits each, a scale for every 32 inputs of every channel
    INT8_OFFSETS = "int8-offsets"  # 8 bits each, a scale and an offset for every 32 inputs of every channel
    INT8_COLUMNS = "int8-columns"  # 8 bits each, a scale and an offset for every channel, a scale for every input
    PALETTE4 = "palette4"  # 4 bits each, which name one of 16 numbers
    PALETTE6 = "palette6"  # 6 bits each, which name one of 64 numbers
    SPARSE = "sparse"      # a mask, and fp16 for what is not 0


EARLY_FORMS = frozenset((WeightForm.PALETTE4, WeightForm.SPARSE))
"""What every generation streams; int8 with a scale per channel becomes fp16 on M1. Of palettes, those of 16 numbers
were looked at."""
FORMS = EARLY_FORMS | {WeightForm.INT8}
"""From the generation of M2 on; scales for blocks become fp16 on M1 and M2."""
LATE_FORMS = FORMS | {WeightForm.INT8_BLOCKS}
"""From the generation of A16 and M3 on."""
WRITTEN = {
    WeightForm.INT8: "programs hold fp16: how weights of 8 bits lie in the engine's streams is not known",
    WeightForm.INT8_BLOCKS: "programs hold fp16: how weights of 8 bits lie in the engine's streams is not known",
    WeightForm.INT8_OFFSETS: "programs hold fp16: how weights of 8 bits lie in the engine's streams is not known",
    WeightForm.INT8_COLUMNS: "programs hold fp16: how weights of 8 bits lie in the engine's streams is not known",
    WeightForm.PALETTE4: "programs hold fp16: how palettes lie in the engine's streams is not known",
    WeightForm.PALETTE6: "programs hold fp16: how palettes lie in the engine's streams is not known",
    WeightForm.SPARSE: "programs leave out zeros in convolutions of stride 2, and hold fp16 elsewhere: the order of "
                       "taps is not known there",
}
"""What programs of this compiler hold of each form, whatever the generation."""
ACTIVATIONS_OF_8_BITS = ("no record shows how the engine multiplies activations of 8 bits with weights of 8 bits, on "
                         "any generation: neither the fields that ask for it nor how such weights lie in its streams")
"""Why W8A8 is not written. A benchmark of Apple's compiler on M4 has it 1.9 times as fast as fp16; a field called
DoubleInt8En is known by name from H16 on."""
