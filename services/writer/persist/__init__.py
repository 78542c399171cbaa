"""PERSIST: rows into tables by COPY or INSERT, each row with exactly one outcome."""
