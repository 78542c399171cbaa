"""The verbs: one file each, which reads its options and hands over to what does the work."""
