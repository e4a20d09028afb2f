"""Encoders of text by rules on their configuration: every token mixed with every other, and what is asked of them.

`models.encoder` runs a BERT, too, and gives its states alone: it holds weights in 8 or 4 bits, and one function on the
device at a time, as decoders do. Here weights are fp16, and families differ in more than a decoder's `Config` says.
"""

from openane.models.text_encoders.config import EncoderConfig, EncoderTask, of_huggingface
from openane.models.text_encoders.load import load_text_encoder
from openane.models.text_encoders.model import Tagged, TextAnswer, TextEncoderModel

__all__ = ["EncoderConfig", "EncoderTask", "Tagged", "TextAnswer", "TextEncoderModel", "load_text_encoder",
           "of_huggingface"]
