"""Networks of published shapes with seeded weights, as ONNX models, for `benchmarks/models.py`."""
