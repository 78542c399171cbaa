"""What comes back: databases that were out, diverted ranges, rows behind holds, halted ledgers."""
