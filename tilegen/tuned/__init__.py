"""Results of tuning, as lines of a file: what they are of, and which of them is the best for a device."""

from tilegen.tuned.choosing import Tuned, describe_environment, find_environment, find_tuned, pins_data, read_pins
from tilegen.tuned.keys import key_of, read_spec
from tilegen.tuned.records import (
    LOST,
    MEASURED,
    Environment,
    Found,
    Record,
    Skipped,
    choose_best,
    data_of,
    latest,
    line_of,
    read_records,
    sort_records,
)

__all__ = [
    "LOST",
    "MEASURED",
    "Environment",
    "Found",
    "Record",
    "Skipped",
    "Tuned",
    "choose_best",
    "data_of",
    "describe_environment",
    "find_environment",
    "find_tuned",
    "key_of",
    "latest",
    "line_of",
    "pins_data",
    "read_pins",
    "read_records",
    "read_spec",
    "sort_records",
]
