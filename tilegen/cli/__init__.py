"""The command line: what is typed, what is printed where, and the exit code. The only door to click."""

from tilegen.cli.commands import cli, main

__all__ = ["cli", "main"]
