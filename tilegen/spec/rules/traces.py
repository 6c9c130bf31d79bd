"""What the stamps of a traced kernel may show."""

from __future__ import annotations

from tilegen.spec.rules.rule import Rule

TRACE_RULES = {
    "TG495": Rule(
        "stamps that are no way through the plan",
        "`tilegen trace` compares what each thread stamped with what the interpreter passes over the same inputs, "
        "stamp by stamp. A thread that stamped something else, or did not end, did not run this plan.",
    ),
    "TG496": Rule(
        "an order of the proof that stamps deny",
        "Whoever is waited for began before the wait ended, and all that meet come before any of them goes on. Stamps "
        "of one SM are compared by its clock, those of a cluster by the timer of the GPU, to the ns that it tells.",
    ),
    "TG497": Rule(
        "nothing to trace",
        "Stamps stand around waits, copies, products, arrivals and syncs of a spec: the kernel has none of these.",
    ),
}
