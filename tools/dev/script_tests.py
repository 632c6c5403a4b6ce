#!/usr/bin/env python3
"""Runs the tests that are Python: the style of this repository, and our tools.

usage: tools/dev/script_tests.py [--results=FILE] [TEST...]

A TEST is a name as unittest takes it, e.g. tidy_test.Bans; without any, all
*_test.py run. FILE gets the counts.
"""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
FOLDERS = [os.path.join(ROOT, *folder.split("/"))
           for folder in ("tools/style", "tools/dev", "tools/docs",
                         "tools/install", "tools/peer_bench",
                         "tools/bench_against", "tools/nic_proof",
                         "tests/programs", "tests/vm")]
sys.path[:0] = FOLDERS

from test_results import Tally  # noqa: E402


class CountingResult(unittest.TextTestResult):
    """Remembers what passed, which unittest does not."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tally = Tally()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tally.add_pass()

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tally.add_failure(test.id(), str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.tally.add_failure(test.id(), repr(err[1]))


def main(arguments):
    results = None
    if arguments and arguments[0].startswith("--results="):
        results = arguments.pop(0).partition("=")[2]
    sys.dont_write_bytecode = True
    loader = unittest.TestLoader()
    if arguments:
        tests = loader.loadTestsFromNames(arguments)
    else:
        tests = unittest.TestSuite(
            loader.discover(folder, "*_test.py", top_level_dir=folder)
            for folder in FOLDERS)
    print("== style and tools", flush=True)
    outcome = unittest.TextTestRunner(resultclass=CountingResult,
                                      verbosity=0).run(tests)
    if results:
        outcome.tally.write(results)
    print("== style and tools: " + outcome.tally.summary(), flush=True)
    return 0 if outcome.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
