"""afflux solve: a minimum-cost-flow problem from a file."""

import re

from afflux._core import FlowError, InfeasibleError, Solution, solve
from afflux.cli.arguments import SolveOptions
from afflux.cli.data_output import print_data
from afflux.cli.exit_codes import ExitCode
from afflux.cli.file_arguments import read_source
from afflux.cli.output_option import is_data
from afflux.cli.safe_output import print_error
from afflux.cli.text_table import format_table
from afflux.model.errors import InputError
from afflux.network.dimacs import Problem, read_dimacs

VERSION = 1


def run(options: SolveOptions) -> ExitCode:
    """Prints the optimal cost; for programs and in the wide form also flows and prices."""
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
        return ExitCode.NO
    except FlowError as error:
        raise InputError(f"{name}: {_with_file_numbers(error)}") from None
    if is_data(options.output):
        answer = {
            "version": VERSION,
            "cost": solution.cost,
            "flows": solution.flow.tolist(),
            "prices": solution.price.tolist(),
        }
        print_data(answer, options.output)
    else:
        print(solution.cost)
        if options.output == "wide":
            _print_tables(problem, solution)
    return ExitCode.DONE


def _print_tables(problem: Problem, solution: Solution) -> None:
    """Arcs and nodes, numbered as in the file."""
    columns = (problem.tail + 1, problem.head + 1, solution.flow, problem.cost)
    arcs = enumerate(zip(*(column.tolist() for column in columns), strict=True), 1)
    rows = [[str(number), *map(str, arc)] for number, arc in arcs]
    prices = enumerate(solution.price.tolist(), 1)
    print("\n" + format_table(["ARC", "FROM", "TO", "FLOW", "COST"], rows))
    print("\n" + format_table(["NODE", "PRICE"], [[str(n), str(price)] for n, price in prices]))


def _with_file_numbers(error: FlowError) -> str:
    """The solver's message with nodes and arcs counted from 1, as in the file, not from 0."""
    return re.sub(r"\b(node|arc) ([0-9]+)", lambda m: f"{m[1]} {int(m[2]) + 1}", str(error))
