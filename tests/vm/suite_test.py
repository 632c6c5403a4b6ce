"""What the guests leave is judged strictly, and their plans are well formed."""

import os
import subprocess
import tempfile
import unittest

import kernel
import manifest
import suite
from test_results import Tally

PASSING = ('<testsuites><testsuite><testcase name="One" classname="S"/>'
           '</testsuite></testsuites>')


class Judging(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.share = folder.name

    def leave(self, name, text):
        with open(os.path.join(self.share, name), "w") as stream:
            stream.write(text)

    def judge(self, entry):
        return suite.Step(entry, "/bin").judge(self.share)

    def judge_test(self, status, report, **options):
        if status is not None:
            self.leave("a.b.status", "%d\n" % status)
        if report is not None:
            self.leave("a.b.xml", report)
        return self.judge(manifest.Test("//a:b", **options))

    def test_a_test_that_passed(self):
        self.assertEqual(self.judge_test(0, PASSING).summary(),
                         "1 passed, 0 failed")

    def test_a_result_that_is_missing(self):
        self.assertEqual(self.judge_test(None, None).failures,
                         ["//a:b: the guest left no result"])

    def test_a_test_that_ran_past_its_bound(self):
        tally = self.judge_test(124, None)
        self.assertEqual(tally.summary(), "0 passed, 1 failed")
        self.assertIn("past its bound", tally.failures[0])

    def test_a_test_that_crashed_after_its_cases(self):
        self.assertEqual(self.judge_test(139, PASSING).summary(),
                         "1 passed, 1 failed")

    def test_the_slowest_cases_come_first(self):
        self.leave("a.b.xml", '<testcase name="Two" classname="S" time="2.5">'
                   '<testcase name="One" classname="S" time="3."/>')
        steps = [suite.Step(manifest.Test("//a:b"), "/bin")]
        self.assertEqual(suite.slowest(steps, self.share),
                         [(3.0, "//a:b S.One"), (2.5, "//a:b S.Two")])
        self.assertEqual(suite.slowest(steps, self.share, count=1),
                         [(3.0, "//a:b S.One")])

    def test_a_command_is_one_case(self):
        self.leave("x.status", "0\n")
        self.assertEqual(self.judge(manifest.Command("x", "true")).summary(),
                         "1 passed, 0 failed")
        self.leave("x.status", "1\n")
        self.assertEqual(self.judge(manifest.Command("x", "true")).summary(),
                         "0 passed, 1 failed")

    def judge_counters(self, before, after):
        self.leave("a.b.before.counters", before)
        self.leave("a.b.after.counters", after)
        return self.judge_test(0, PASSING, no_rnr=True)

    def test_quiet_counters_pass(self):
        tally = self.judge_counters("rcvd_pkts 1\nsend_rnr_err 7\n",
                                    "rcvd_pkts 9\nsend_rnr_err 7\n")
        self.assertEqual(tally.summary(), "2 passed, 0 failed")

    def test_an_rnr_nak_fails(self):
        tally = self.judge_counters("rcvd_pkts 1\nsend_rnr_err 7\n",
                                    "rcvd_pkts 9\nsend_rnr_err 8\n")
        self.assertEqual(tally.summary(), "1 passed, 1 failed")
        self.assertIn("send_rnr_err grew by 1", tally.failures[0])

    def test_a_test_that_did_not_use_rxe_fails(self):
        tally = self.judge_counters("rcvd_pkts 1\nsend_rnr_err 0\n",
                                    "rcvd_pkts 1\nsend_rnr_err 0\n")
        self.assertIn("no packet crossed rxe", tally.failures[0])

    def test_counters_that_are_missing_fail(self):
        self.assertIn("no RNR counters",
                      self.judge_test(0, PASSING, no_rnr=True).failures[0])


    def judge_programs(self, status, passed, failures):
        self.leave("x.status", "%d\n" % status)
        tally = Tally()
        for _ in range(passed):
            tally.add_pass()
        for title in failures:
            tally.add_failure(title, "why")
        tally.write(os.path.join(self.share, "x.results"))
        return self.judge(manifest.Programs("x", seconds=1)).summary()

    def test_programs_are_counted_one_by_one(self):
        self.assertEqual(self.judge_programs(0, 3, []), "3 passed, 0 failed")
        self.assertEqual(self.judge_programs(1, 3, ["a"]), "3 passed, 1 failed")

    def test_programs_of_which_none_ran_fail(self):
        self.assertEqual(self.judge_programs(0, 0, []), "0 passed, 1 failed")


class Plans(unittest.TestCase):

    def assert_bash(self, plan):
        subprocess.run(["bash", "-n"], input=plan, text=True, check=True)

    def test_plans_are_bash(self):
        steps, plans = suite.apart(manifest.APART, "/b i n")
        by_command = sum(getattr(entry, "by_command", False)
                         for guest in manifest.APART for entry in guest)
        self.assertEqual(len(steps),
                         sum(map(len, manifest.APART)) - by_command)
        more_steps, more_plans = suite.joined(manifest.JOINED, "/bin")
        by_command = sum(pair.client.by_command for pair in manifest.JOINED)
        self.assertEqual(len(more_steps),
                         2 * (len(manifest.JOINED) - by_command))
        for plan in plans + more_plans:
            self.assert_bash(plan)

    def test_some_steps_run_only_when_they_are_named(self):
        guests = [[manifest.Programs("x", seconds=9, by_command=True),
                   manifest.Command("y", "true")]]
        for only, names in (("", ["y"]), ("x", ["x"])):
            steps, _ = suite.apart(guests, "/bin", only)
            self.assertEqual([step.name for step in steps], names)

    def test_names_of_steps_differ(self):
        steps = (suite.apart(manifest.APART, "/bin")[0] +
                 suite.joined(manifest.JOINED, "/bin")[0])
        names = [step.name for step in steps]
        self.assertEqual(len(names), len(set(names)), names)

    def test_arguments_know_where_things_are(self):
        step = suite.Step(manifest.Test("//a:b", arguments=("{bin}/c",),
                                        environment=(("X", "{address}:1"),)),
                          "/out")
        self.assertEqual(step.plan(),
                         ["gtest a.b 60 env X=10.77.0.1:1 /out/a/b /out/c"])


    def test_programs_have_a_script(self):
        step = suite.Step(manifest.Programs(
            "x", seconds=9, script="run_between --bin-dir={bin}"), "/bin-dir")
        self.assertRegex(step.plan()[0],
                         "^step x 9 .*/tests/programs/run_between "
                         "--bin-dir=/bin-dir --results=")

    def test_pairs_are_chosen_by_either_name(self):
        pairs = [manifest.Pair(manifest.Command("s1", "x"),
                               manifest.Command("c1", "x")),
                 manifest.Pair(manifest.Command("s2", "x"),
                               manifest.Command("c2", "x"))]
        for only in ("s2", "c2"):
            steps, plans = suite.joined(pairs, "/bin", only)
            self.assertEqual([step.name for step in steps], ["s2", "c2"])
            self.assertNotIn("s1", plans[0])

    def test_a_guest_asks_the_other(self):
        with tempfile.TemporaryDirectory() as share:
            text = (". tests/vm/guest/steps.sh; (sleep 0.2; obey) & "
                    "ask 'touch $VM_SHARE/done; exit 3' || exit $?")
            done = subprocess.run(["bash", "-c", text], cwd=suite.REPOSITORY,
                                  env=dict(os.environ, VM_SHARE=share),
                                  timeout=30, check=False)
            self.assertEqual(done.returncode, 3)
            self.assertEqual(os.listdir(share), ["done"])

    def test_siw_is_there_while_steps_use_it(self):
        entries = [manifest.Test("//a:b"), manifest.siw(manifest.Test("//a:c")),
                   manifest.siw(manifest.Command("x", "echo {address}")),
                   manifest.Test("//a:d")]
        steps, (plan,) = suite.apart([entries], "/bin")
        self.assertEqual([step.name for step in steps],
                         ["a.b", "a.c.siw", "x", "a.d"])
        words = [line.split()[:4] for line in plan.splitlines()[2:]]
        device = ["VERBENA_DEVICE=siw0", "VERBENA_TEST_ADDRESS=10.78.0.1"]
        self.assertEqual(words, [
            ["gtest", "a.b", "60", "env"], ["siw_up"],
            device + ["gtest", "a.c.siw"], device + ["step", "x"],
            ["siw_down"], ["gtest", "a.d", "60", "env"],
            ["counters", "end1"]])
        self.assertIn("echo 10.78.0.1", plan)
        self.assert_bash(plan)


class FindingKernels(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.boot = os.path.join(folder.name, "boot")
        self.modules = os.path.join(folder.name, "modules")
        os.mkdir(self.boot)

    def add(self, release, with_modules=True):
        with open(os.path.join(self.boot, "vmlinuz-" + release), "w"):
            pass
        if with_modules:
            os.makedirs(os.path.join(self.modules, release, "kernel"))

    def find(self):
        return kernel.find_kernel(self.boot, self.modules)

    def test_takes_the_newest_by_number_that_has_modules(self):
        self.add("6.1.0-9-amd64")
        self.add("6.1.0-56-amd64")
        self.add("6.2.0-1-amd64", with_modules=False)
        self.assertEqual(self.find().release, "6.1.0-56-amd64")

    def test_none_is_an_error_that_names_the_package(self):
        with self.assertRaisesRegex(kernel.KernelError, "linux-image-amd64"):
            self.find()

    def test_modules_come_after_what_they_need(self):
        self.add("6.1.0-9-amd64")
        folder = os.path.join(self.modules, "6.1.0-9-amd64")
        with open(os.path.join(folder, "modules.dep"), "w") as stream:
            stream.write("kernel/a-b.ko: kernel/c.ko kernel/d.ko\n"
                         "kernel/c.ko: kernel/d.ko\nkernel/d.ko:\n")
        with open(os.path.join(folder, "modules.builtin"), "w") as stream:
            stream.write("kernel/e.ko\n")
        names = [os.path.basename(path) for path in
                 self.find().module_files(["a_b", "e", "c"])]
        self.assertEqual(names, ["d.ko", "c.ko", "a-b.ko"])
        with self.assertRaisesRegex(kernel.KernelError, "no module x"):
            self.find().module_files(["x"])


if __name__ == "__main__":
    unittest.main()
