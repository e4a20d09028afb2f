"""A compiled model as files."""
