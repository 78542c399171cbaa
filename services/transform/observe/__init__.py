"""The state of transforms: status, metrics and the rule that pauses a transform."""
