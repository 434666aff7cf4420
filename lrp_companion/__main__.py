"""`python -m lrp_companion` is the command `lrp-companion`."""

import sys

from lrp_companion.cli import main

sys.exit(main())
