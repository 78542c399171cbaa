"""`python -m services.cli`, which `bin/onramp` runs."""

import sys

from services.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
