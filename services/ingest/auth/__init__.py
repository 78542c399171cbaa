"""Who sends, and how much: API keys, quotas, new names."""
