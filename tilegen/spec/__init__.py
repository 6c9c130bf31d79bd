"""From YAML to a checked Spec, with the place of every error."""

from tilegen.spec.reading import load, load_own
from tilegen.spec.schema import schema
from tilegen.spec.sources import NamedText, OwnData, Source

__all__ = ["NamedText", "OwnData", "Source", "load", "load_own", "schema"]
