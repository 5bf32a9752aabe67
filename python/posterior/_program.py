"""The program ``posterior``, as the wheel puts it on the path."""

from __future__ import annotations

import sys

from . import _posterior


def main() -> None:
    """Runs the program with the arguments of this process."""
    sys.stdout.flush()
    sys.exit(_posterior.main(["posterior", *sys.argv[1:]]))
