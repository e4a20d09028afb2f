"""How tasks sample a source at computed places."""

from openane.experiments.forms import one, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("TileDMASrc.Texture*",)

EXPERIMENT = Experiment(
    "words_texture", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/TileDMASrc.Texture*",),
    (Trial("resize", one("upsample_bilinear", (1, 4, 8, 8), scale_factor_height=2.0, scale_factor_width=2.0),
                fields=FIELDS),
     Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take TileDMASrc.TextureConfig.Mode=gather", otherwise=True)),
    value=4, generations=("h16", "h17"))
