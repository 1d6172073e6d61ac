"""afflux solve: a minimum-cost-flow problem from a file."""

import re

from afflux._core import FlowError, InfeasibleError, solve
from afflux.cli.arguments import SolveOptions
from afflux.cli.files import read_source
from afflux.cli.terminal import complain, to_json
from afflux.model.errors import InputError
from afflux.network.dimacs import read_dimacs

WITHOUT_SOLUTION = 3
VERSION = 1


def run(options: SolveOptions) -> int:
    """Print the optimal cost, or everything as JSON."""
    name, content = read_source(options.file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: byte {error.start} is not text; expected DIMACS") from None
    problem = read_dimacs(text, name)
    try:
        solution = solve(
            problem.supply,
            problem.tail,
            problem.head,
            problem.lower,
            problem.capacity,
            problem.cost,
        )
    except InfeasibleError as error:
        why = _as_in_file(error).removeprefix("no feasible flow: ")
        complain(f"afflux solve: {name}: no solution: {why}")
        return WITHOUT_SOLUTION
    except FlowError as error:
        raise InputError(f"{name}: {_as_in_file(error)}") from None
    if options.json:
        answer = {
            "version": VERSION,
            "cost": solution.cost,
            "flows": solution.flow.tolist(),
            "prices": solution.price.tolist(),
        }
        print(to_json(answer))
    else:
        print(solution.cost)
    return 0


def _as_in_file(error: FlowError) -> str:
    """The solver's words with nodes and arcs counted from 1, as in the file, not from 0."""
    return re.sub(r"\b(node|arc) ([0-9]+)", lambda m: f"{m[1]} {int(m[2]) + 1}", str(error))
