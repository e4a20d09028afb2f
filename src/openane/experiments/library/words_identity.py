"""What tasks and programs say of themselves."""

from openane.experiments.forms import one, two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("Common.TaskInfo.TaskNID", "Header.LiveOuts.*")

EXPERIMENT = Experiment(
    "words_identity", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/Common.TaskInfo.TaskNID", "field/*/Header.LiveOuts.*"),
    (Trial("elementwise", two("add", (1, 8, 16, 16)), fields=FIELDS),
     Trial("softmax", one("softmax", (16, 64), axis=-1), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take Common.TaskInfo.TaskNID=1", otherwise=True)),
    value=3, generations=("h16", "h17", "h18"))
