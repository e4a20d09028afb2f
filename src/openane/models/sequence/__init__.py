"""Sequence to sequence: an encoder that reads a whole text or sound once, and a decoder that writes token by token."""

from openane.models.sequence.config import SequenceConfig
from openane.models.sequence.load import load_sequence, load_speech
from openane.models.sequence.model import SequenceModel, SequenceSettings
from openane.models.sequence.speech import SpeechModel

__all__ = ["SequenceConfig", "SequenceModel", "SequenceSettings", "SpeechModel", "load_sequence", "load_speech"]
