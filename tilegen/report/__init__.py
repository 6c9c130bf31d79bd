"""explain: choices and counts as data (data), as text (text), as a spec (resolved); one access in full (banks)."""

from __future__ import annotations

from tilegen.report.banks import access_text, explain_access
from tilegen.report.data import choice_data, cost_data, explain_plan
from tilegen.report.resolved import pin_choices, resolved_text
from tilegen.report.text import explain_text

__all__ = [
    "access_text", "choice_data", "cost_data", "explain_access", "explain_plan", "explain_text", "pin_choices",
    "resolved_text",
]  # fmt: skip
