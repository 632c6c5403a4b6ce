"""Counts test cases from GoogleTest's XML, which Bazel writes as well."""

import json
import xml.etree.ElementTree as ElementTree


class Tally:
    """How many cases passed, failed and were skipped, and which failed."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.failures = []

    def add_pass(self):
        self.passed += 1

    def add_failure(self, name, reason):
        self.failed += 1
        self.failures.append("%s: %s" % (name, reason.strip()))

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures

    def add_test(self, name, problem, xml_text):
        """Adds one test program.

        `problem` is None if it ended well, else what happened to it;
        `xml_text` is its report, None if it left none. A program that ended
        badly counts as a failure even when every case it reported passed.
        """
        cases = Tally()
        if xml_text is not None:
            try:
                cases._add_cases(name, ElementTree.fromstring(xml_text))
            except ElementTree.ParseError as error:
                problem = problem or "its report is not XML: %s" % error
        elif problem is None:
            problem = "it left no report"
        if problem is not None and cases.failed == 0:
            cases.add_failure(name, problem)
        if problem is None and cases.total() == 0:
            cases.add_failure(name, "it ran no test case")
        self.add(cases)

    def total(self):
        return self.passed + self.failed + self.skipped

    def summary(self):
        """The closing line: "3 passed, 0 failed" or with ", 1 skipped"."""
        text = "%d passed, %d failed" % (self.passed, self.failed)
        return text + (", %d skipped" % self.skipped if self.skipped else "")

    def write(self, path):
        with open(path, "w") as stream:
            json.dump(vars(self), stream)

    @classmethod
    def read(cls, path):
        tally = cls()
        with open(path) as stream:
            vars(tally).update(json.load(stream))
        return tally

    def _add_cases(self, program, root):
        for case in root.iter("testcase"):
            name = "%s %s.%s" % (program, case.get("classname", ""),
                                 case.get("name", ""))
            bad = [child for child in case
                   if child.tag in ("failure", "error")]
            if bad:
                self.add_failure(name, bad[0].get("message") or
                                 (bad[0].text or "")[:400])
            elif (case.find("skipped") is not None
                  or case.get("result") == "skipped"
                  or case.get("status") == "notrun"):
                self.skipped += 1
            else:
                self.add_pass()
