"""What a person decides about halts and holds."""
