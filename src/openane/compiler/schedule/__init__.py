"""Gives engine operations addresses instead of virtual buffers, and saves memory traffic on the way."""
