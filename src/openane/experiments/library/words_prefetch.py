"""How coefficients are fetched ahead."""

from openane.experiments.forms import conv, linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("KernelDMA.Prefetch.*",)

EXPERIMENT = Experiment(
    "words_prefetch", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/KernelDMA.Prefetch.*",),
    (Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take KernelDMA.Prefetch.PrefetchRate=1", otherwise=True)),
    value=3, generations=("h15", "h16", "h17", "h18"))
