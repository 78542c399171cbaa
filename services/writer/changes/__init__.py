"""Changes of sources: identifies each change's table, builds rows, and appends them to landing tables."""
