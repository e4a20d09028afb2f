"""Tags of memory accesses."""

from openane.experiments.forms import linear, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("*.UserTag.*", "*.CompressedInfo.UserTag")

EXPERIMENT = Experiment(
    "words_user_tags", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/*.UserTag.*", "field/*/*.CompressedInfo.UserTag"),
    (Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS),
     Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take KernelDMA.UserTag.Tag=1", otherwise=True)),
    value=3, generations=("h17", "h18"))
