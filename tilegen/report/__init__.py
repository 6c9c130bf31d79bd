"""explain: choices and counts as data (data), as text (text), as a spec (resolved); one access in full (banks); what
roles do and wait for (events, which has its own door: it needs the interpreter).
"""

from __future__ import annotations

from tilegen.report.banks import access_text, explain_access
from tilegen.report.data import choice_data, cost_data, explain_plan
from tilegen.report.resolved import pin_choices, resolved_text
from tilegen.report.short import summary_lines
from tilegen.report.summary import say_summary
from tilegen.report.tensor_memory import describe_tensor_memory
from tilegen.report.text import explain_text, say_role

__all__ = [
    "access_text", "choice_data", "cost_data", "describe_tensor_memory", "explain_access", "explain_plan",
    "explain_text", "pin_choices", "resolved_text", "say_role",
    "say_summary", "summary_lines",
]  # fmt: skip
