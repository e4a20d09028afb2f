"""Families that come in by the transformers library's own code and torch.export: images, sounds, some texts."""

from openane.models.exported.load import load_images, load_sounds, load_texts, load_towers
from openane.models.exported.model import Detected, ImageModel, TowersModel
from openane.models.exported.sounds import SoundModel

__all__ = ["Detected", "ImageModel", "SoundModel", "TowersModel", "load_images", "load_sounds", "load_texts",
           "load_towers"]
