"""The totals are true to what ran: each way to fail is counted as one."""

import json
import os
import tempfile
import unittest

import native_results
import total
from test_results import Tally

PASSING = """<testsuites><testsuite>
  <testcase name="One" classname="S" status="run" result="completed"/>
  <testcase name="Two" classname="S" status="run" result="completed"/>
</testsuite></testsuites>"""

FAILING = """<testsuites><testsuite>
  <testcase name="One" classname="S" status="run"/>
  <testcase name="Two" classname="S" status="run">
    <failure message="a.cc:7: 1 is not 2"/>
  </testcase>
</testsuite></testsuites>"""

SKIPPING = """<testsuites><testsuite>
  <testcase name="One" classname="S" status="run" result="completed"/>
  <testcase name="Two" classname="S" result="skipped"><skipped/></testcase>
</testsuite></testsuites>"""


class OneProgram(unittest.TestCase):

    def tally(self, problem, text):
        tally = Tally()
        tally.add_test("//a:b", problem, text)
        return tally

    def test_cases_are_counted_one_by_one(self):
        self.assertEqual(self.tally(None, PASSING).summary(),
                         "2 passed, 0 failed")

    def test_failed_cases_are_named(self):
        tally = self.tally("failed", FAILING)
        self.assertEqual(tally.summary(), "1 passed, 1 failed")
        self.assertEqual(tally.failures, ["//a:b S.Two: a.cc:7: 1 is not 2"])

    def test_skipped_cases_are_neither(self):
        self.assertEqual(self.tally(None, SKIPPING).summary(),
                         "1 passed, 0 failed, 1 skipped")

    def test_a_bad_end_after_good_cases_is_a_failure(self):
        self.assertEqual(self.tally("it crashed", PASSING).summary(),
                         "2 passed, 1 failed")

    def test_no_report_is_a_failure(self):
        self.assertEqual(self.tally(None, None).failures,
                         ["//a:b: it left no report"])

    def test_a_torn_report_is_a_failure(self):
        self.assertEqual(self.tally(None, "<testsuites>").failed, 1)

    def test_a_program_without_cases_is_a_failure(self):
        self.assertEqual(self.tally(None, "<testsuites/>").failed, 1)


class Folder(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as stream:
            stream.write(text)
        return path


class NativeRun(Folder):

    def event(self, label, status, report):
        outputs = [{"name": "test.xml", "uri": "file://" + report}]
        return json.dumps({
            "id": {"testResult": {"label": label}},
            "testResult": {"status": status,
                           "testActionOutput": outputs}}) + "\n"

    def test_every_expected_target_counts(self):
        good = self.write("good.xml", PASSING)
        bad = self.write("bad.xml", FAILING)
        events = self.write("events", self.event("//a", "PASSED", good) +
                            self.event("//b", "FAILED", bad) +
                            self.event("//c", "TIMEOUT", "/nonexistent"))
        tally = native_results.tally_of(native_results.read_events(events),
                                        ["//a", "//b", "//c", "//d"])
        self.assertEqual(tally.summary(), "3 passed, 3 failed")
        self.assertEqual(tally.failures, [
            "//b S.Two: a.cc:7: 1 is not 2", "//c: timeout",
            "//d: it was not run (did it compile?)"])

    def test_without_events_everything_failed(self):
        runs = native_results.read_events(os.path.join(self.folder, "none"))
        self.assertEqual(native_results.tally_of(runs, ["//a"]).failed, 1)


class Total(Folder):

    def part(self, name, passed, failed):
        tally = Tally()
        for _ in range(passed):
            tally.add_pass()
        for _ in range(failed):
            tally.add_failure(name, "so")
        path = os.path.join(self.folder, name)
        tally.write(path)
        return path

    def test_adds_up_and_passes(self):
        self.assertEqual(self.main([self.part("a", 2, 0),
                                    self.part("b", 1, 0)]),
                         (0, "3 passed, 0 failed"))

    def test_one_failure_fails_all(self):
        self.assertEqual(self.main([self.part("a", 2, 0),
                                    self.part("b", 1, 1)]),
                         (1, "3 passed, 1 failed"))

    def test_a_part_without_result_fails_all(self):
        self.assertEqual(self.main([self.part("a", 2, 0), "/nonexistent"]),
                         (1, "2 passed, 1 failed"))

    def test_nothing_at_all_is_no_success(self):
        self.assertEqual(self.main([self.part("a", 0, 0)])[0], 1)

    def test_a_failure_is_shown_with_its_first_lines(self):
        shown = total.shown("a: one\ntwo\n" + "more\n" * 20)
        self.assertEqual(shown.splitlines()[:2], ["  a: one", "  two"])
        self.assertEqual(shown.splitlines()[-1], "  (2 more lines)")

    def main(self, paths):
        """Status and last line of total.py."""
        printed = []
        status = total.main(paths, printed.append)
        return status, printed[-1]


if __name__ == "__main__":
    unittest.main()
