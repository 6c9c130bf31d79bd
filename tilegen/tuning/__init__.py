"""Choices that are measured: candidates of a spec, built and proved, timed on a GPU or many, the best kept in a file.

tune("gemm.yaml", "gemm.tune.jsonl", TuneWishes(seconds=300, jobs=16)).best
"""

from tilegen.tuning.tune import PLAIN, Devices, TuneResult, TuneWishes, tune

__all__ = ["PLAIN", "Devices", "TuneResult", "TuneWishes", "tune"]
