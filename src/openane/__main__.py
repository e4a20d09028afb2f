"""`python -m openane` is the command `ane`."""

import sys

from openane.cli import main

sys.exit(main())
