"""Values that all rooms share: offsets, records, targets, routes. Nothing here does input or output."""
