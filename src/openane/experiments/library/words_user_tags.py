"""Tags of memory accesses."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_user_tags", ("*.UserTag.*", "*.CompressedInfo.UserTag"), ("product", "elementwise"),
    "KernelDMA.UserTag.Tag=1", generations=("h17", "h18"))
