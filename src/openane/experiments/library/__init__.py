"""Experiments, one a module."""
