"""What evidence says: odds of hypotheses, facts that several machines prove, contradictions, fitted times."""
