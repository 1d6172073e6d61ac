"""afflux solve: a minimum-cost-flow problem from a file."""

from afflux._flow import FlowError, InfeasibleError, solve
from afflux.cli.arguments import SolveOptions
from afflux.cli.files import read_source
from afflux.cli.terminal import complain, print_json
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
        complain(f"afflux solve: {name}: no solution: {error}")
        return WITHOUT_SOLUTION
    except FlowError as error:
        raise InputError(f"{name}: {error}") from None
    if options.json:
        print_json(
            {
                "version": VERSION,
                "cost": solution.cost,
                "flows": solution.flow.tolist(),
                "prices": solution.price.tolist(),
            }
        )
    else:
        print(solution.cost)
    return 0
