"""Core ML models: ML programs and neural networks, read without Apple's tools, and packages written for them."""

from openane.importers.coreml.load import load_coreml

__all__ = ["load_coreml"]
