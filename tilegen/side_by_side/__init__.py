"""Work shared out over processes: the parts of one result, or results that are told of as they come."""

from __future__ import annotations

from tilegen.side_by_side.streams import Died, end_processes, leave_ending_to_its_parent, stream_tasks
from tilegen.side_by_side.tasks import find_context, run_tasks

__all__ = ["Died", "end_processes", "find_context", "leave_ending_to_its_parent", "run_tasks", "stream_tasks"]
