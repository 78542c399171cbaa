"""What an operator decides about halts and holds."""
