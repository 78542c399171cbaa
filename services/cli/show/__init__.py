"""What verbs print: results as lines for people and as JSON for programs."""
