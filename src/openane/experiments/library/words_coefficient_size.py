"""Sizes and steps of coefficients."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_coefficient_size",
    ("KernelDMA.AlignedCoeffSizePerCh.*", "KernelDMA.Control.GroupKernelReuse", "KernelDMA.KernelGroupStride.*"),
    ("product", "convolution"), "KernelDMA.KernelGroupStride.Stride=64",
    generations=("h14", "h15", "h16", "h17", "h18"))
