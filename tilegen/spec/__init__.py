"""From YAML to a checked Spec, with the place of every error."""

from tilegen.spec.loader import load

__all__ = ["load"]
