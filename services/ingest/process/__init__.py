"""The gateway's processes: workers, the interpreter's settings, the limit of open files."""
