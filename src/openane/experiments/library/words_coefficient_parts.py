"""Where biases, scales and palettes of a task begin."""

from openane.experiments.forms import conv, linear
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("KernelDMA.Bias*.*", "KernelDMA.Palette*.*", "KernelDMA.PostScale*.*")

EXPERIMENT = Experiment(
    "words_coefficient_parts", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/KernelDMA.Bias*.*", "field/*/KernelDMA.Palette*.*", "field/*/KernelDMA.PostScale*.*"),
    (Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take KernelDMA.BiasBase.Addr=64", otherwise=True)),
    value=4, generations=("h15", "h16", "h17"))
