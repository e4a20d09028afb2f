"""What a compilation did, for people: stages, the report, numbers fp16 does not hold."""
