"""Strongly connected components of a directed graph, by Tarjan's algorithm, without recursion."""

from collections.abc import Callable, Iterable, Iterator


def strong_components(
    roots: Iterable[int], successors: Callable[[int], Iterable[int]]
) -> Iterator[list[int]]:
    """The components of everything reachable from the roots; a component comes after all those
    that it leads to."""
    index: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in roots:
        if root in index:
            continue
        path: list[tuple[int, Iterator[int]]] = [(root, iter(successors(root)))]
        index[root] = lowest[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while path:
            node, rest = path[-1]
            following = next(rest, None)
            if following is None:
                path.pop()
                if path:
                    parent = path[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == index[node]:
                    yield _component(node, stack, on_stack)
            elif following not in index:
                index[following] = lowest[following] = len(index)
                stack.append(following)
                on_stack.add(following)
                path.append((following, iter(successors(following))))
            elif following in on_stack:
                lowest[node] = min(lowest[node], index[following])


def _component(node: int, stack: list[int], on_stack: set[int]) -> list[int]:
    """Take the component whose first node is this one from the stack."""
    found: list[int] = []
    while not found or found[-1] != node:
        found.append(stack.pop())
        on_stack.discard(found[-1])
    return found
