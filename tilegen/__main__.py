"""``python -m tilegen`` is ``tilegen``."""

from tilegen.cli import main

main()
