"""What an event type promises of its events: its schema compiled, compared, found in samples."""
