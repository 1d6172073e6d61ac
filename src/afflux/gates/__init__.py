"""Networks with gates (groups whole or not at all), with HiGHS as a fallback of the search.

`gated_solve` searches, runs HiGHS if a gap remains, and checks its answer. `integer_program` writes
network and gates as an integer program, `highs_process` runs HiGHS in a process of its own, whose
code is `highs_worker`. Not here: the search (`afflux._core`), and the cost of gangs (`plan`).
"""
