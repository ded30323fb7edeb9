"""Prints the README's table of all keys."""

import sys

from proxy.settings import table

sys.stdout.write(table())
