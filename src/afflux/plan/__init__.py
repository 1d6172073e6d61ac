"""From flow to placements: what fits exactly, for whole groups, with the reason for the rest.

`rounds` is the way: ration, route, accept, solve the rest again, finish. `demand` is what waits,
`book` keeps exact accounts while a round is under way, `gangs` finds room for a whole group,
`repair` closes what the network left open, `check` judges the finished plan knowing nothing of how
it was made, `explain` says why something waits.
"""
