"""Kernels that groups share."""

from openane.experiments.forms import conv, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("NE.KernelCfg.GroupKernelReuse",)

EXPERIMENT = Experiment(
    "words_kernel_reuse", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/NE.KernelCfg.GroupKernelReuse",),
    (Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS),
     Trial("runtime product", two("matmul", (64, 64), (64, 64)), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take NE.KernelCfg.GroupKernelReuse=1", otherwise=True)),
    value=3)
