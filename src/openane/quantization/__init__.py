"""Weights of models in fewer bits: forms of a weight, which layers take which, and what that costs and saves."""

from openane.chips.weight_forms import WeightForm
from openane.quantization.api import AUTO, FORMS, MAX_ERROR, LayerReport, Quantized, quantize
from openane.quantization.samples import read_samples

__all__ = ["AUTO", "FORMS", "MAX_ERROR", "LayerReport", "Quantized", "WeightForm", "quantize", "read_samples"]
