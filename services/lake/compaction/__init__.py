"""COMPACTION: rewrites small files, closes dates, drops old dates, and deletes files without references."""
