"""The version of the package: stated here, read by the build."""

__version__ = "0.1.0"
