"""How tasks sample a source at computed places."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_texture", ("TileDMASrc.Texture*",), ("resize", "elementwise"), "TileDMASrc.TextureConfig.Mode=gather",
    value=4, generations=("h16", "h17"))
