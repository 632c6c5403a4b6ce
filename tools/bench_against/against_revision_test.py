"""The rows, the verdict, and what an old revision cannot do."""

import argparse
import contextlib
import io
import json
import os
import tempfile
import unittest

import against_revision
import measured_rows
import processes
import verdict
from measured_rows import Row
from verdict import BETTER, WORSE

P50, P99, P999, MEAN, RATE, CPU = verdict.METRICS


def run_of(side, number=1, row="rpc+64B+x1", look=1, **metrics):
    return {"side": side, "round": number, "row": row, "look": look,
            "seconds": 1.0, "p50_us": 1.0, "p99_us": 2.0, "p999_us": 3.0,
            "mean_us": 1.5, "calls_per_s": 500000.0, "cpu_us": 4.0, **metrics}


def rounds_of(new, old, count=5, look=1):
    """Runs of both sides, which differ by nothing but what is said."""
    return [run_of(side, number, look=look, **metrics)
            for number in range(1, count + 1)
            for side, metrics in (("new", new), ("old", old))]


class Rows(unittest.TestCase):

    def test_each_comes_once(self):
        names = [row.name for row in measured_rows.ROWS]
        self.assertEqual(len(names), len(set(names)))

    def test_all_that_is_asked_for_is_there(self):
        for name in ("verbs+1MiB+x32", "transport+4KiB+x1", "rpc+64KiB+x32",
                     "rpc+64B+x32+callback", "rpc+64B+x1+coroutine",
                     "bidi+64B+x1", "server+64B+x32",
                     "server+64B+1000streams+callback", "rpc+64B+x1+1000/s",
                     "default+64B+1000/s", "rpc+64B+x1+2busy"):
            self.assertIn(name, [row.name for row in measured_rows.ROWS])

    def test_a_name_says_the_command(self):
        row = Row.parse("rpc+64B+x32+callback+2busy")
        self.assertEqual(row.busy, 2)
        self.assertEqual(row.command("bin", "1s"), [
            "bin/rpc_bench", "--layer=rpc", "--size=64B", "--api=callback",
            "--outstanding=32", "--duration=1s", "--json"])
        self.assertEqual(
            Row.parse("default+4KiB+8callers+chat").command("bin", "1s"), [
                "bin/verbena_peer", "--server=default", "--warm_up=100ms",
                "--size=4096", "--callers=8", "--kind=bidi", "--duration=1s"])
        self.assertIn("--verbs-op=echo", Row.parse("verbs+64B+x1").flags)

    def test_what_any_revision_knows_has_no_new_flags(self):
        for name in ("rpc+64B+x1", "rpc+64B+x32", "rpc+64B+x1+1000/s"):
            for flag in Row.parse(name).flags:
                self.assertRegex(flag, "^--(layer|size|outstanding|rate)=")

    def test_knows_whose_mean_follows_from_the_rate(self):
        for name, expected in (("rpc+64B+x1", True), ("rpc+64B+x32", False),
                               ("rpc+64B+x1+1000/s", False),
                               ("default+64B", True),
                               ("default+64B+8callers", False)):
            self.assertEqual(Row.parse(name).one_at_a_time, expected, name)

    def test_refuses_what_is_no_row(self):
        for name in ("tcp+64B", "rpc+fast", "default+64B+callback", ""):
            with self.assertRaises(ValueError):
                Row.parse(name)

    def test_patterns_choose_in_the_order_of_the_list(self):
        self.assertEqual([row.name for row in measured_rows.select(
            "verbs+4KiB+*,rpc+64B+x1")],
            ["rpc+64B+x1", "verbs+4KiB+x1", "verbs+4KiB+x32"])
        self.assertEqual(measured_rows.select("*"), measured_rows.ROWS)
        with self.assertRaisesRegex(ValueError, "no row matches none"):
            measured_rows.select("rpc+*,none")


class Compare(unittest.TestCase):

    def test_worse_takes_a_median_beyond_the_threshold(self):
        self.assertEqual(verdict.compare(P50, [1.07] * 5, [1.0] * 5), "")
        self.assertEqual(verdict.compare(P50, [1.09] * 5, [1.0] * 5), WORSE)
        self.assertEqual(verdict.compare(P50, [1.0] * 5, [1.09] * 5), BETTER)
        self.assertEqual(verdict.compare(P99, [1.2] * 5, [1.0] * 5), "")
        self.assertEqual(verdict.compare(P99, [1.3] * 5, [1.0] * 5), WORSE)

    def test_and_ranges_that_do_not_overlap(self):
        self.assertEqual(verdict.compare(P50, [2, 2.1, 2.2], [1, 1.1, 1.9]),
                         WORSE)
        self.assertEqual(verdict.compare(P50, [2, 2.1, 2.2], [1, 1.1, 2.0]),
                         "")

    def test_two_rounds_are_too_few(self):
        self.assertEqual(verdict.compare(P50, [9, 9], [1, 1]), "")
        self.assertEqual(verdict.compare(P50, [9] * 3, [1, 1]), "")
        self.assertEqual(verdict.compare(P50, [9] * 3, [1] * 3), WORSE)

    def test_from_four_rounds_on_one_run_may_stand_out(self):
        old = [1, 1, 1, 1, 9]
        self.assertEqual(verdict.compare(P50, [2, 2, 2, 2, 2], old), WORSE)
        self.assertEqual(verdict.compare(P50, [0.9, 2, 2, 2, 2], [1] * 5),
                         WORSE)
        # But not one of each side, nor two, nor one of three.
        self.assertEqual(verdict.compare(P50, [0.9, 2, 2, 2, 2], old), "")
        self.assertEqual(verdict.compare(P50, [2] * 5, [1, 1, 1, 9, 9]), "")
        self.assertEqual(verdict.compare(P50, [2] * 3, [1, 1, 9]), "")

    def test_of_a_rate_less_is_worse(self):
        self.assertEqual(verdict.compare(RATE, [90] * 5, [100] * 5), WORSE)
        self.assertEqual(verdict.compare(RATE, [110] * 5, [100] * 5), BETTER)
        self.assertEqual(verdict.compare(RATE, [94] * 5, [100] * 5), "")

    def test_nothing_is_no_worse(self):
        self.assertEqual(verdict.compare(P50, [9], []), "")
        self.assertEqual(verdict.compare(P50, [], [9]), "")


class Verdict(unittest.TestCase):

    def setUp(self):
        self.row = Row.parse("rpc+64B+x1")

    def test_a_tail_is_found_that_the_median_does_not_show(self):
        runs = rounds_of({"p99_us": 69.6, "calls_per_s": 275662.0}, {})
        self.assertEqual([verdict.of(metric, self.row, runs)
                          for metric in (P50, P99, P999, MEAN, RATE, CPU)],
                         ["", WORSE, "", "", WORSE, ""])
        self.assertEqual(verdict.worse_rows([self.row], runs), [self.row])

    def test_equal_sides_are_well(self):
        self.assertEqual(verdict.worse_rows([self.row], rounds_of({}, {})), [])

    def test_worse_once_is_not_worse(self):
        first = rounds_of({"p50_us": 2.0}, {})
        for second, expected in (({}, ""), ({"p50_us": 2.0}, WORSE)):
            runs = first + rounds_of(second, {}, look=2)
            self.assertEqual(verdict.of(P50, self.row, runs), expected)

    def test_a_second_look_marks_nothing_new(self):
        runs = rounds_of({"p50_us": 2.0}, {}) + rounds_of(
            {"p50_us": 2.0, "p99_us": 9.0}, {}, look=2)
        self.assertEqual(verdict.of(P99, self.row, runs), "")

    def test_a_percentile_takes_calls_beyond_it(self):
        tail = {"p999_us": 9.0}
        self.assertEqual(verdict.of(P999, self.row, rounds_of(tail, {})), WORSE)
        few = {"calls_per_s": 3000.0}
        self.assertEqual(verdict.of(P999, self.row, rounds_of(
            {**tail, **few}, few)), "")
        self.assertEqual(verdict.of(P99, self.row, rounds_of(
            {"p99_us": 9.0, **few}, few)), WORSE)

    def test_without_an_old_mean_that_of_both_is_by_the_rate(self):
        runs = rounds_of({"calls_per_s": 250000.0, "mean_us": 1.0},
                         {"mean_us": None})
        found = verdict.values(MEAN, self.row, runs)
        self.assertEqual(found, {"new": [4.0] * 5, "old": [2.0] * 5})
        self.assertEqual(verdict.of(MEAN, self.row, runs), WORSE)
        several = Row.parse("rpc+64B+x32")
        self.assertEqual(verdict.values(MEAN, several, runs)["old"], [])

    def test_messages_one_way_have_no_latency(self):
        row = Row.parse("server+64B+x32")
        runs = [run_of(side, row=row.name, p50_us=value)
                for side, value in (("new", 9.0), ("old", 1.0))]
        self.assertEqual(verdict.values(P50, row, runs),
                         {"new": [], "old": []})
        self.assertEqual(verdict.worse_rows([row], runs), [])

    def test_failed_runs_count_as_failures_of_the_new_side_only(self):
        failure = {"row": self.row.name, "look": 1, "round": 1, "seconds": 1,
                   "error": "so"}
        for side, expected in (("new", [self.row]), ("old", [])):
            runs = rounds_of({}, {}) + [{**failure, "side": side}]
            self.assertEqual(verdict.failed_rows([self.row], runs), expected)
            self.assertEqual(verdict.worse_rows([self.row], runs), [])


class Tables(unittest.TestCase):

    def test_show_medians_ranges_and_marks(self):
        row = Row.parse("rpc+64B+x1")
        runs = rounds_of({"p99_us": 6.0}, {})
        runs[0]["p50_us"] = 1.2
        lines = [[cell.strip() for cell in line.split("|")[1:-1]]
                 for line in verdict.details([row], runs).splitlines()]
        self.assertIn(["rpc+64B+x1", "p50, us", "1.00 [1.00 to 1.20]", "1.00",
                       "1.00", ""], lines)
        self.assertIn(["", "p99, us", "6.00", "2.00", "3.00", WORSE], lines)
        overview = verdict.overview([row], runs).splitlines()
        self.assertEqual([cell.strip() for cell in overview[2].split("|")],
                         ["", "rpc+64B+x1", "1.00", "3.00 WORSE", "1.00",
                          "1.00", "1.00", "1.00", "", ""])

    def test_name_what_is_new_only_or_failed(self):
        row = Row.parse("rpc+64B+x1")
        self.assertIn("| new only |", verdict.overview([row], [run_of("new")]))
        failed = {**run_of("new"), "error": "so"}
        self.assertIn("| FAILED ", verdict.overview([row], [failed]))


class Driver(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for side, names in (("new", ("rpc_bench", "verbena_peer")),
                            ("old", ("rpc_bench",))):
            os.mkdir(os.path.join(self.root, side))
            for name in names:
                with open(os.path.join(self.root, side, name), "w"):
                    pass

    def options(self, *words):
        return against_revision.parse_arguments([
            "--new=%s/new" % self.root, "--old=%s/old" % self.root, *words])

    def program(self, side, script):
        path = os.path.join(self.root, side, "rpc_bench")
        with open(path, "w") as stream:
            stream.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)

    def test_the_side_that_goes_first_changes(self):
        turns = []

        def run(row, folder, options):
            del options
            turns.append((row.name, os.path.basename(folder)))
            return {}
        options = self.options("--rows=verbs+64B+x1,rpc+64B+x1", "--rounds=2")
        with contextlib.redirect_stderr(io.StringIO()):
            against_revision.Comparison(options, run).look(1, options.rows)
        self.assertEqual(turns, [
            ("verbs+64B+x1", "old"), ("verbs+64B+x1", "new"),
            ("rpc+64B+x1", "new"), ("rpc+64B+x1", "old"),
            ("verbs+64B+x1", "new"), ("verbs+64B+x1", "old"),
            ("rpc+64B+x1", "old"), ("rpc+64B+x1", "new")])

    def test_a_flag_that_the_old_side_lacks_makes_a_row_new_only(self):
        options = self.options("--rows=rpc+64B+x1+callback", "--rounds=3")
        result = {"errors": 0, "p50_us": 1, "calls_per_s": 2,
                  "cpu_us_per_call": 3}
        self.program("new", "echo '%s'" % json.dumps({"results": [result]}))
        self.program("old", "echo x >>%s/calls; exit 2" % self.root)
        comparison = against_revision.Comparison(options)
        with contextlib.redirect_stderr(io.StringIO()):
            comparison.look(1, options.rows)
        self.assertEqual([run["side"] for run in comparison.runs], ["new"] * 3)
        self.assertFalse(any("error" in run for run in comparison.runs))
        with open(self.root + "/calls") as stream:
            self.assertEqual(len(stream.readlines()), 1)
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            self.assertEqual(against_revision.show(options, comparison.runs), 0)
        self.assertIn("new only", shown.getvalue())

    def test_so_does_a_program_that_it_lacks(self):
        options = self.options("--rows=default+64B", "--rounds=1")
        comparison = against_revision.Comparison(options, lambda *_: {})
        with contextlib.redirect_stderr(io.StringIO()):
            comparison.look(1, options.rows)
        self.assertEqual([run["side"] for run in comparison.runs], ["new"])

    def test_a_flag_that_the_new_side_lacks_is_a_failure(self):
        options = self.options("--rows=rpc+64B+x1", "--rounds=1")
        for side in ("new", "old"):
            self.program(side, "echo no such flag >&2; exit 2")
        comparison = against_revision.Comparison(options)
        with contextlib.redirect_stderr(io.StringIO()):
            comparison.look(1, options.rows)
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            self.assertEqual(against_revision.show(options, comparison.runs), 1)
        self.assertIn("1 rows could not be measured", shown.getvalue())

    def test_what_is_worse_is_measured_again_and_the_exit_code_says_so(self):
        for side, p50 in (("new", 2), ("old", 1)):
            result = {"errors": 0, "p50_us": p50, "calls_per_s": 1e6}
            self.program(side, "echo %s >>%s/runs; echo '%s'" % (
                side, self.root, json.dumps({"results": [result]})))
        for more, runs in (([], 12), (["--once"], 6)):
            with contextlib.redirect_stdout(io.StringIO()) as shown, \
                    contextlib.redirect_stderr(io.StringIO()):
                status = against_revision.main([
                    "--new=%s/new" % self.root, "--old=%s/old" % self.root,
                    "--rows=rpc+64B+x1", "--rounds=3",
                    "--json=%s/json" % self.root, *more])
            self.assertEqual(status, 1)
            self.assertIn("2.00 WORSE", shown.getvalue())
            self.assertIn("1 of 1 rows are worse", shown.getvalue())
            with open(self.root + "/json") as stream:
                self.assertEqual(len(json.load(stream)["runs"]), runs)

    def test_results_with_errors_are_failures(self):
        with self.assertRaisesRegex(processes.RunFailed, "3 errors.*gone"):
            against_revision.metrics_of_bench({"results": [
                {"errors": 3, "first_error": "UNAVAILABLE: gone"}]})

    def test_both_programs_say_the_same_metrics(self):
        bench = against_revision.metrics_of_bench({"results": [
            {"errors": 0, "mean_us": 5, "cpu_us_per_call": 6}]})
        peer = against_revision.metrics_of_peer(
            {"mean_us": 5, "client": {"cpu_us": 2}, "server": {"cpu_us": 4}})
        self.assertEqual(bench, peer)

    def test_durations(self):
        self.assertEqual(against_revision.seconds_of("100ms"), 0.1)
        self.assertEqual(against_revision.seconds_of("1.5s"), 1.5)
        for text in ("1", "0s", "1m", "s"):
            with self.assertRaises(argparse.ArgumentTypeError):
                against_revision.seconds_of(text)

    def test_refuses_what_it_does_not_know(self):
        for words in (["--rows=none"], ["--rounds=0"], ["--duration=1"]):
            with contextlib.redirect_stderr(io.StringIO()):
                with self.assertRaises(SystemExit):
                    self.options(*words)

    def test_the_help_states_every_threshold(self):
        for metric in verdict.METRICS:
            self.assertIn(" %.0f %%" % (100 * metric.threshold),
                          against_revision.__doc__)

    def test_without_programs_nothing_is_measured(self):
        with contextlib.redirect_stderr(io.StringIO()) as complaint:
            self.assertEqual(against_revision.main(
                ["--new=/nonexistent", "--old=/nonexistent"]), 2)
        self.assertIn("there is no rpc_bench, verbena_peer",
                      complaint.getvalue())


if __name__ == "__main__":
    unittest.main()
