"""What `fuzz.py` changes, how, and what reads it.

    mutants    bytes, texts, JSON, protobuf, HTTP changed so that a reader does not refuse them at once
    files      targets: programs and models; folders  bundles and entries of the cache
    others     checkpoints, arrays, evidence, configurations; requests  what the server is sent
    watched    a process that reads mutants of one target, and the one that watches it
"""
