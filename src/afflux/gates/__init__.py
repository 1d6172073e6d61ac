"""Gates with help: where the own search leaves a gap, HiGHS is asked.

`solving` is the door: the own search, HiGHS if need be, and the check of what it says. `program`
writes network and gates as an integer program, `asking` runs HiGHS in a process of its own, `highs`
is that process.
Not here: the search itself (`afflux._core`), and what gangs cost (`network`).
"""
