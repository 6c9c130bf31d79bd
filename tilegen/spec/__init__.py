"""From YAML to a checked Spec, with the place of every error."""

from tilegen.spec.loader import load
from tilegen.spec.schema import schema

__all__ = ["load", "schema"]
