"""The script that spark-submit runs for the lake; the rest is in the archive of `make bundle`."""

import sys

from services.lake.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
