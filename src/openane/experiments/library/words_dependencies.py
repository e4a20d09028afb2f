"""What tasks wait for."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("TileDMASrc.*DMAConfig.DependencyInterval", "TileDMADst.DMAConfig.BypassEOW",
          "TileDMADst.DMAConfig.Dependency")

EXPERIMENT = Experiment(
    "words_dependencies", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/TileDMASrc.*DMAConfig.DependencyInterval", "field/*/TileDMADst.DMAConfig.BypassEOW",
     "field/*/TileDMADst.DMAConfig.Dependency"),
    (Trial("softmax", one("softmax", (16, 64), axis=-1), fields=FIELDS),
     Trial("norm", one("layer_norm", (16, 64), axes=[-1], epsilon=1e-5), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else",
                "take TileDMADst.DMAConfig.BypassEOW=1; take TileDMADst.DMAConfig.Dependency=1", otherwise=True)),
    value=3)
