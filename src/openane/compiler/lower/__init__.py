"""A graph becomes engine operations over virtual buffers: values as tensors, ports, fusion."""
