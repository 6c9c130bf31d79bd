"""From YAML to a checked Spec, with the place of every error."""

from tilegen.spec.loader import load
from tilegen.spec.schema import schema
from tilegen.spec.sources import NamedText, Source

__all__ = ["NamedText", "Source", "load", "schema"]
