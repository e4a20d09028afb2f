"""Sizes and steps of coefficients."""

from openane.experiments.forms import conv, linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("KernelDMA.AlignedCoeffSizePerCh.*", "KernelDMA.Control.GroupKernelReuse", "KernelDMA.KernelGroupStride.*")

EXPERIMENT = Experiment(
    "words_coefficient_size", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/KernelDMA.AlignedCoeffSizePerCh.*", "field/*/KernelDMA.Control.GroupKernelReuse",
     "field/*/KernelDMA.KernelGroupStride.*"),
    (Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take KernelDMA.KernelGroupStride.Stride=64",
                otherwise=True)),
    value=3, generations=("h14", "h15", "h16", "h17", "h18"))
