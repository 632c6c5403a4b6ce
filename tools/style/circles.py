"""Circles of includes. A unit is x.h with x.cc and x_*.cc."""

import os

from source_tree import Problem

_PRODUCT = ("proto/", "rpc/", "transport/", "tools/")

# Circles that stand, each by its first unit in the alphabet, and its length,
# which may only fall.
KNOWN = {
    "rpc/internal/client/background_thread": 2,
    "rpc/internal/client/open_call": 2,
    "transport/soft/base/fd_message": 2,
    "transport/soft/connected/connected_queue_pair": 2,
    "transport/soft/queues/completion_channel": 4,
}


def _unit(path, headers):
    """The header that a file belongs to: x_steps.cc to x.h."""
    base = os.path.splitext(path)[0]
    while base not in headers and "_" in os.path.basename(base):
        base = base.rpartition("_")[0]
    return base if base in headers else os.path.splitext(path)[0]


def _graph(repository):
    sources = [source for source in repository.cpp()
               if source.path.startswith(_PRODUCT) and not source.is_test()]
    headers = {os.path.splitext(source.path)[0] for source in sources
               if source.path.endswith(".h")}
    graph = {}
    for source in sources:
        unit = _unit(source.path, headers)
        includes = {os.path.splitext(path)[0]
                    for _, kind, path in source.includes() if kind == '"'}
        graph.setdefault(unit, set()).update(includes & headers - {unit})
    return graph


def find_circles(graph):
    """The sets of units of which each includes each, if only by others."""
    reach = {}
    for unit in graph:
        found, todo = set(), [unit]
        while todo:
            for other in graph.get(todo.pop(), ()):
                if other not in found:
                    found.add(other)
                    todo.append(other)
        reach[unit] = found
    circles = {tuple(sorted(other for other in reach[unit]
                            if unit in reach.get(other, ())))
               for unit in graph}
    return sorted(circle for circle in circles if circle)


def _circles(repository):
    return {circle[0]: circle for circle in find_circles(_graph(repository))}


def check_circles(repository):
    """Units that include each other belong together, or need an order."""
    for first, circle in _circles(repository).items():
        if len(circle) > KNOWN.get(first, 0):
            yield Problem(first + ".h", 1,
                          "a circle of includes: " + ", ".join(circle))


def check_known(repository):
    """A circle that became smaller stays so."""
    circles = _circles(repository)
    for first, length in KNOWN.items():
        if len(circles.get(first, ())) < length:
            yield Problem("tools/style/circles.py", 1,
                          "lower KNOWN: the circle of %s is smaller" % first)
