"""Output of verbs: results as lines for people and as JSON for programs."""
