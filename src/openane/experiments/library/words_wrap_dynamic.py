"""Rings whose place is computed."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_wrap_dynamic", ("TileDMASrc.*WrapDynamic.*", "TileDMASrc.*DependencyOffset.*", "TileDMASrc.Ephemeral.*"),
    ("elementwise", "convolution"), "TileDMASrc.Ephemeral.Enable=1", generations=("h16", "h17"))
