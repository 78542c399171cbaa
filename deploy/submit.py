"""The script that spark-submit runs; the rest is in the archive of `make bundle`."""

import sys

from services.writer.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
