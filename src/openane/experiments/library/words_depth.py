"""Windows with a third axis."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_depth", ("Common.ConvCfg3d.*",), ("three axes", "convolution"), "Common.ConvCfg3d.Pz=1", value=4)
