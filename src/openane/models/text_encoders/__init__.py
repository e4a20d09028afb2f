"""Encoders of text by rules on their configuration: every token mixed with every other, and what is asked of them."""

from openane.models.text_encoders.config import EncoderConfig, EncoderTask, of_huggingface
from openane.models.text_encoders.load import load_text_encoder
from openane.models.text_encoders.model import Tagged, TextAnswer, TextEncoderModel

__all__ = ["EncoderConfig", "EncoderTask", "Tagged", "TextAnswer", "TextEncoderModel", "load_text_encoder",
           "of_huggingface"]
