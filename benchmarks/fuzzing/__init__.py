"""What `fuzz.py` changes, how, and what reads it.

    mutants    bytes, texts, JSON, protobuf, HTTP changed so that a reader does not refuse them at once
    files      targets: programs and models; folders  bundles and entries of the cache
    others     targets: checkpoints, arrays, evidence, configurations, the server
    watched    a process that reads mutants of one target, and the one that watches it
"""
