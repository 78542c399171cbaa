"""Authentication and limits of senders: API keys, quotas, new names."""
