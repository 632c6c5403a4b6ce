#!/usr/bin/env python3
"""Adds up the result files of the parts of a test run and prints the total.

usage: total.py RESULTS...

A file that is missing counts as a failure: its part ended before it counted.
The last line is "N passed, N failed", with ", N skipped" if any were; the exit
status is 0 only if something passed and nothing failed.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from test_results import Tally  # noqa: E402

# The rest stands in the output of the part that failed.
LINES_OF_A_FAILURE = 20


def shown(failure):
    """Its first lines, indented."""
    lines = failure.splitlines()
    if len(lines) > LINES_OF_A_FAILURE:
        lines[LINES_OF_A_FAILURE:] = ["(%d more lines)" %
                                      (len(lines) - LINES_OF_A_FAILURE)]
    return "\n".join("  " + line for line in lines)


def main(paths, show=print):
    total = Tally()
    for path in paths:
        try:
            total.add(Tally.read(path))
        except (OSError, ValueError):
            total.add_failure(os.path.basename(path), "it left no result")
    if total.failures:
        show("\nFailures:")
    for failure in total.failures:
        show(shown(failure))
    show(total.summary())
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
