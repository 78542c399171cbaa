"""Values that all packages share: routes, targets, timings. No module here does input or output."""
