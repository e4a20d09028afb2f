"""Numbers of element types."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_element_types", ("Common.ChCfg.*", "TileDMASrc.*Fmt.*", "TileDMADst.Fmt.*"), ("elementwise", "convolution"),
    "TileDMADst.Fmt.Truncate=0", value=4, generations=("h18",))
