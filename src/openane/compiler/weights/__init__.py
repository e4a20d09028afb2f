"""Constant weights as the streams of the engine's cores, and the record of where each one went."""
