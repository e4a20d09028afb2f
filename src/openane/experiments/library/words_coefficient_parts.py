"""Where biases, scales and palettes of a task begin."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_coefficient_parts", ("KernelDMA.Bias*.*", "KernelDMA.Palette*.*", "KernelDMA.PostScale*.*"),
    ("product", "convolution"), "KernelDMA.BiasBase.Addr=64", value=4, generations=("h15", "h16", "h17"))
