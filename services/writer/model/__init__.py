"""Values that all rooms share: routes, targets, timings. No module here does input or output."""
