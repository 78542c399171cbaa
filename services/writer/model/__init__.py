"""Values that all rooms share: offsets, records, targets, routes. No module here does input or output."""
