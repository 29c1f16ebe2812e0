"""`python -m groupjudge` is the same as the command `groupjudge`."""

import sys

from groupjudge.cli import main

if __name__ == "__main__":
    sys.exit(main())
