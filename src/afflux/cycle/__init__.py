"""The cycle: the way of the data from what happened to what is done about it.

`loop` is the nine steps, `events` what can happen and `observing` how it is noticed, `turns` whom a
cycle looks at, `sparing` who is left out if nothing could be decided otherwise, `ports` what a
scheduler answers, `inspection` what people are shown of groups, in the states of `phases`.
Not here: any policy or search; nor a clock, a network, a database.
"""
