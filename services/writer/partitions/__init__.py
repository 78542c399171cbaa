"""The partitions' state in the log of settled work: plans, halts, quarantines and retirements."""
