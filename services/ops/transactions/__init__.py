"""Changes of sources, counted by transactions: what each END said beside what landed."""
