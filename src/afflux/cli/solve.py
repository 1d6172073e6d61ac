"""afflux solve: a minimum-cost-flow problem from a file."""

import re

from afflux._core import FlowError, InfeasibleError, solve
from afflux.cli.arguments import SolveOptions
from afflux.cli.file_arguments import read_source
from afflux.cli.safe_output import print_error, to_json
from afflux.model.errors import InputError
from afflux.network.dimacs import read_dimacs

EXIT_NO_SOLUTION = 3
VERSION = 1


def run(options: SolveOptions) -> int:
    """Prints the optimal cost, or cost, flows and prices as JSON."""
    name, content = read_source(options.file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: byte {error.start} is not text; expected DIMACS") from None
    problem = read_dimacs(text, name)
    try:
        solution = solve(*problem)
    except InfeasibleError as error:
        why = _with_file_numbers(error).removeprefix("no feasible flow: ")
        print_error(f"afflux solve: {name}: no solution: {why}")
        return EXIT_NO_SOLUTION
    except FlowError as error:
        raise InputError(f"{name}: {_with_file_numbers(error)}") from None
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


def _with_file_numbers(error: FlowError) -> str:
    """The solver's message with nodes and arcs counted from 1, as in the file, not from 0."""
    return re.sub(r"\b(node|arc) ([0-9]+)", lambda m: f"{m[1]} {int(m[2]) + 1}", str(error))
