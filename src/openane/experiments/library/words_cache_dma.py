"""The DMA that brings data into the system's cache."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_cache_dma", ("CacheDMA.*",), ("elementwise", "product"), "CacheDMA.Control.Flush=1",
    generations=("h15", "h16", "h17", "h18"))
