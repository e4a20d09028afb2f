"""Slices that begin inside."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_crop_offset", ("TileDMASrc.*CropOffset.*",), ("elementwise", "pool"), "TileDMASrc.CropOffset.X=1",
    generations=("h16", "h17"))
