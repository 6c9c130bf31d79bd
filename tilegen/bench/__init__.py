"""Kernels timed beside what a user would call instead: one process, one stream, the same buffers, in turns.

with open_session() as session:
    print(result_text(bench_built(session, tilegen.build("specs/transpose_tile.yaml"), BenchWishes())))
"""

from tilegen.bench.measuring import Session, open_session
from tilegen.bench.peers import NAMES, choose_peers, nearest_peer
from tilegen.bench.picture import Bar, BarGroup, describe_ceilings, group_of, result_text, svg_picture
from tilegen.bench.results import Result, Row, result_data
from tilegen.bench.running import BenchWishes, Ready, bench_built, prepare_kernel
from tilegen.bench.user_functions import UserFunction

__all__ = [
    "NAMES",
    "Bar",
    "BarGroup",
    "BenchWishes",
    "Ready",
    "Result",
    "Row",
    "Session",
    "UserFunction",
    "bench_built",
    "choose_peers",
    "describe_ceilings",
    "group_of",
    "nearest_peer",
    "open_session",
    "prepare_kernel",
    "result_data",
    "result_text",
    "svg_picture",
]  # fmt: skip
