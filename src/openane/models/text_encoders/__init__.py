"""Encoders of text by rules on their configuration: every token mixed with every other, and what is asked of them."""

from openane.models.text_encoders.config import EncoderConfig, Task, of_huggingface
from openane.models.text_encoders.load import load_text_encoder
from openane.models.text_encoders.model import Answer, Tagged, TextEncoderModel

__all__ = ["Answer", "EncoderConfig", "Tagged", "Task", "TextEncoderModel", "load_text_encoder", "of_huggingface"]
