"""explain: choices and counts as data (data, banks), as text (text, bank_text), and as a spec (resolved)."""

from __future__ import annotations

from tilegen.report.bank_text import access_text
from tilegen.report.banks import explain_access
from tilegen.report.data import choice_data, cost_data, explain_plan
from tilegen.report.resolved import resolved_text
from tilegen.report.text import explain_text

__all__ = ["access_text", "choice_data", "cost_data", "explain_access", "explain_plan", "explain_text", "resolved_text"]
