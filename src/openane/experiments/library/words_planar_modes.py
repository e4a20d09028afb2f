"""Settings of the planar engine."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_planar_modes",
    ("PE.Cfg.NegateFirst", "PE.Cfg.ReluEn", "PE.Cfg.Root", "PE.Epsilon.*", "PE.FinalScale.*", "PE.PreScale.*"),
    ("elementwise", "norm", "softmax"), "PE.Cfg.ReluEn=1", value=4, generations=("h15", "h16", "h17", "h18"))
