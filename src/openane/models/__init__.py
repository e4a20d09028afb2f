"""Language models on the engine: decoders that continue texts, encoders that embed them.

    from openane import models
    with models.load("Qwen2.5-0.5B-Instruct") as model:
        for token in model.generate("Once upon a time", models.Options(max_tokens=64)):
            print(token.text, end="", flush=True)
"""

from openane.models.adapters import Adapter, Slots, load_adapter
from openane.models.config import Config, Rope
from openane.models.encoder import Encoded, TextEncoder
from openane.models.generation import GeneratedToken, Options
from openane.models.language import HOST, LanguageModel, LanguageSettings
from openane.models.layers import Precision
from openane.models.load import load, load_encoder
from openane.models.runner import Residence, Usage
from openane.models.sampling import Sampling
from openane.models.steps import Buckets, CacheWriter
from openane.models.tokenizer import Tokenizer

__all__ = [
    "HOST",
    "Adapter",
    "Buckets",
    "CacheWriter",
    "Config",
    "Encoded",
    "GeneratedToken",
    "LanguageModel",
    "LanguageSettings",
    "Options",
    "Precision",
    "Residence",
    "Rope",
    "Sampling",
    "Slots",
    "TextEncoder",
    "Tokenizer",
    "Usage",
    "load",
    "load_adapter",
    "load_encoder",
]
