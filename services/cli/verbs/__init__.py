"""The verbs: one file each, which reads the options and calls the module that does the work."""
