"""Espresso, the form older Core ML models are compiled to: model.espresso.net, .shape and .weights."""

from openane.importers.espresso.load import FOLDER_NETWORK, load_espresso

__all__ = ["FOLDER_NETWORK", "load_espresso"]
