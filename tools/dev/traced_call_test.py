"""What traced_call.py makes of a profile, and of the document."""

import contextlib
import io
import unittest

import callgrind
import traced_call
from source_tree import SourceTree

# Apart, because a style test looks for files that documents name.
_A, _B = "rpc/" "a.cc", "transport/" "b.h"

_PROFILE = """\
version: 1
events: Ir
ob=/bin/bench
fl=/proc/self/cwd/{a}
fn=Start
1 {setup}
fn=A::Run()
10 {calls}
cob=/lib/libc.so.6
cfi=???
cfn=malloc
calls={calls} 0
* 900
+1 {calls}
fi=/proc/self/cwd/{b}
4 {calls}
* {calls}
fe=/proc/self/cwd/{a}
-1 {calls}
12 {rare}
ob=/lib/libc.so.6
fl=???
fn=malloc
0 {calls}

fl=/proc/self/cwd/{a}
fn=Main
cfn=Tick
calls={rare} 0
1 900
fn=Tick
12 {rare}00

fl=./bazel-out/k8/bin/rpc/a.pb.h
fn=Get
7 {calls}
"""

_TREE = SourceTree.of({
    _A: "\n\n\n\n\n\n\n\nvoid A::Run() {\n  B();\n}\nvoid C() {}\n",
    _B: "class B {\n\n  int Get() {\n    return 1;\n  }\n};\n"})


def profile(calls, rare=0):
    return callgrind.read_profile(
        _PROFILE.format(a=_A, b=_B, setup=5000, calls=calls,
                        rare=rare).splitlines())


class Callgrind(unittest.TestCase):

    def test_costs_are_counted_where_the_code_stands(self):
        costs = profile(7, rare=2).costs
        self.assertEqual(costs["Start", "/bin/bench",
                               "/proc/self/cwd/" + _A, 1], 5000)
        self.assertEqual(costs["A::Run()", "/bin/bench",
                               "/proc/self/cwd/" + _B, 4], 14)
        self.assertEqual(costs["malloc", "/lib/libc.so.6", "???", 0], 7)

    def test_what_a_callee_takes_is_its_own(self):
        self.assertNotIn(900, profile(7).costs.values())
        self.assertEqual(sum(profile(7).costs.values()), 5000 + 7 * 7)

    def test_lines_may_be_differences(self):
        lines = sorted(line for _, _, file, line in profile(7, rare=1).costs
                       if file.endswith("a.cc"))
        self.assertEqual(lines, [1, 3, 10, 11, 12, 12])

    def test_a_difference_leaves_out_the_start(self):
        costs, _ = callgrind.per_call(profile(10), profile(30), "malloc")
        self.assertEqual(sum(costs.values()), 7)
        self.assertNotIn(5000, costs.values())


class Costs(unittest.TestCase):

    def setUp(self):
        measured = callgrind.per_call(profile(10, 0), profile(30, 4), "malloc")
        self.costs = traced_call.Costs(_TREE, *measured)

    def test_code_belongs_to_the_function_of_its_line(self):
        self.assertEqual(self.costs.files[_B], {"Get": 2})
        self.assertIn("A::Run", self.costs.files[_A])

    def test_what_few_calls_do_is_left_out(self):
        self.assertNotIn("C", self.costs.files[_A])
        self.assertEqual(self.costs.others["now and then"], 20.2)

    def test_others_have_names(self):
        self.assertEqual(self.costs.others["generated code"], 1)
        self.assertEqual(self.costs.others["libc"], 1)

    def compared(self, places):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            wrong = traced_call.compare(self.costs, places)
        return wrong, printed.getvalue()

    def test_the_document_may_leave_out_what_is_short(self):
        wrong, text = self.compared([(_A, ["A::Run"])])
        self.assertFalse(wrong)
        self.assertIn("not named: nothing", text)

    def test_the_document_names_only_what_runs(self):
        wrong, text = self.compared([(_A, ["A::Run", "C"])])
        self.assertTrue(wrong)
        self.assertIn("not run: %s C\n" % _A, text)

    def test_files_that_the_document_leaves_out(self):
        self.costs.files[_B]["Get"] = 50
        wrong, text = self.compared([(_A, ["A::Run"])])
        self.assertTrue(wrong)
        self.assertIn("not named: %s\n" % _B, text)


if __name__ == "__main__":
    unittest.main()
