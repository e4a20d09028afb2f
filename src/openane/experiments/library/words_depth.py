"""Windows with a third axis."""

from openane.experiments.forms import conv
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("Common.ConvCfg3d.*",)

EXPERIMENT = Experiment(
    "words_depth", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/Common.ConvCfg3d.*",),
    (Trial("three axes", conv(4, 4, (4, 8, 8), (3, 3, 3)), fields=FIELDS),
     Trial("convolution", conv(16, 16, (16, 16), pad_type="same"), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take Common.ConvCfg3d.Pz=1", otherwise=True)),
    value=4)
