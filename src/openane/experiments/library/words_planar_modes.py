"""Settings of the planar engine."""

from openane.experiments.forms import one, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("PE.Cfg.NegateFirst", "PE.Cfg.ReluEn", "PE.Cfg.Root", "PE.Epsilon.*", "PE.FinalScale.*", "PE.PreScale.*")

EXPERIMENT = Experiment(
    "words_planar_modes", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/PE.Cfg.NegateFirst", "field/*/PE.Cfg.ReluEn", "field/*/PE.Cfg.Root", "field/*/PE.Epsilon.*",
     "field/*/PE.FinalScale.*", "field/*/PE.PreScale.*"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("norm", one("layer_norm", (16, 64), axes=[-1], epsilon=1e-5), fields=FIELDS),
     Trial("softmax", one("softmax", (16, 64), axis=-1), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take PE.Cfg.ReluEn=1", otherwise=True)),
    value=4, generations=("h15", "h16", "h17", "h18"))
