"""explain: choices and counts as data (data), as text (text), as a spec (resolved); one access in full (banks); what
roles do and wait for (events).
"""

from __future__ import annotations

from tilegen.report.banks import access_text, explain_access
from tilegen.report.data import choice_data, cost_data, explain_plan
from tilegen.report.events import drawing_text, events_data, events_text, has_events, list_cells, list_columns
from tilegen.report.resolved import pin_choices, resolved_text
from tilegen.report.short import summary_lines
from tilegen.report.summary import say_summary
from tilegen.report.tensor_memory import describe_tensor_memory
from tilegen.report.text import explain_text, say_role

__all__ = [
    "access_text", "choice_data", "cost_data", "describe_tensor_memory", "drawing_text", "events_data",
    "events_text", "explain_access", "explain_plan", "explain_text", "has_events", "list_cells", "list_columns",
    "pin_choices", "resolved_text", "say_role", "say_summary", "summary_lines",
]  # fmt: skip
