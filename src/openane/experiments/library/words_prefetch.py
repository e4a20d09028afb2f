"""How coefficients are fetched ahead."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_prefetch", ("KernelDMA.Prefetch.*",), ("product", "convolution"), "KernelDMA.Prefetch.PrefetchRate=1",
    generations=("h15", "h16", "h17", "h18"))
