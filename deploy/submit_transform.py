"""The script that spark-submit runs for the transforms; the rest is in the archive of `make bundle`."""

import sys

from services.transform.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
