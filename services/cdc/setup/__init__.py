"""What people do about sources: prepare one, check it, list them, ask for a resync."""
