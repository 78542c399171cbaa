"""PERSIST: writes rows into tables by COPY or INSERT; each row has exactly one outcome."""
