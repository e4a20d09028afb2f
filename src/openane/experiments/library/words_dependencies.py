"""What tasks wait for."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_dependencies",
    ("TileDMASrc.*DMAConfig.DependencyInterval", "TileDMADst.DMAConfig.BypassEOW", "TileDMADst.DMAConfig.Dependency"),
    ("softmax", "norm"), "TileDMADst.DMAConfig.BypassEOW=1; take TileDMADst.DMAConfig.Dependency=1")
