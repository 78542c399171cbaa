"""Load and benchmarks: figures with the command that made them, as ratios to a limit of the same run."""
