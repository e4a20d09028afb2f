"""What tasks and programs say of themselves."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_identity", ("Common.TaskInfo.TaskNID", "Header.LiveOuts.*"), ("elementwise", "softmax"),
    "Common.TaskInfo.TaskNID=1", generations=("h16", "h17", "h18"))
