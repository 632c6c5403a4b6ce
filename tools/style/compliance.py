"""The software device's table of promises, COMPLIANCE.md."""

import re

from source_tree import Problem

TABLE = "transport/soft/COMPLIANCE.md"
EXPORTS = "transport/soft/preload/export_"
PROGRAMS = "tests/programs/lines.py"
TEST_TREES = ("tests/conformance", "transport/soft")

_DEFINITION = re.compile(r"^[a-z_].*?\b(_?ibv_\w+|rdma_\w+)\(", re.MULTILINE)
_TEST = re.compile(r"`(\w+): (\w+)`")


def check_compliance(tree):
    """Every exported call has a row, and what shows a row exists."""
    table = tree.get(TABLE)
    if table is None:
        yield Problem(TABLE, 1, "there is no table")
        return
    yield from _check_calls(tree, table)
    for number, cells in _rows(table):
        if not all(cells):
            yield Problem(TABLE, number, "an empty cell: say something")
        elif _TEST.search(cells[-1]) is None:
            yield Problem(TABLE, number, "no test: name one that shows it")
    for number, line in enumerate(table.lines, start=1):
        for file, name in _TEST.findall(line):
            if not _exists(tree, file, name):
                yield Problem(TABLE, number, "there is no test %s of that name "
                              "in %s" % (name, file))


def _check_calls(tree, table):
    named = set(re.findall(r"`(\w+)`", table.text))
    for source in tree:
        if source.path.startswith(EXPORTS):
            # What it exports stands behind the helpers of the file.
            exported = source.text.partition('extern "C" {')[2]
            for call in sorted(set(_DEFINITION.findall(exported)) - named):
                yield Problem(source.path, 1, "%s has no row in %s" %
                              (call, TABLE))


def _rows(table):
    """(line number, cells) of each row but for heads."""
    for number, line in enumerate(table.lines, start=1):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        is_head = cells and (set(cells[0]) <= set("-")
                             or cells[-1] == "shown by")
        if cells and not (is_head and cells[0]):
            yield number, cells


def _exists(tree, file, name):
    if file == "run_lines":
        return '"' + name in tree.get(PROGRAMS).text
    return any(source.name == file + ".cc" and source.under(*TEST_TREES)
               and re.search(r"\b%s\b" % name, source.text)
               for source in tree)
