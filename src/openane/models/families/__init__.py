"""Families of language models: how each states its configuration in a `config.json`, and what it calls its weights.

Everything that a family is becomes fields of `Config` and a `FamilyNames`; nothing else knows a family by its name.
"""
