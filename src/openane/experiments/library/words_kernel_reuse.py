"""Kernels that groups share."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_kernel_reuse", ("NE.KernelCfg.GroupKernelReuse",), ("convolution", "runtime product"),
    "NE.KernelCfg.GroupKernelReuse=1")
