"""Rows by name, the arithmetic, and that nothing outlives a run."""

import contextlib
import io
import os
import tempfile
import unittest

import against_grpc
import processes
import rows
import summary
from rows import Row


def run_of(system, number=1, row="back-to-back", p50=10.0, p99=20.0):
    side = {"cpu_us": 3.0, "voluntary": 1.0, "involuntary": 0.5}
    return {"round": number, "row": row, "system": system, "p50_us": p50,
            "p99_us": p99, "max_us": 99.0, "calls": 200, "calls_per_s": 5000.0,
            "late": 50, "client": dict(side), "server": dict(side)}


class Rows(unittest.TestCase):

    def test_a_name_says_all(self):
        for row in rows.FULL + rows.MAIN:
            self.assertEqual(Row.parse(row.name), row)

    def test_parts_are_read_in_any_order(self):
        self.assertEqual(
            Row.parse("half+4channels+100/s+1busy+16callers+pinned"),
            Row(rate=100, busy=1, callers=16, channels=4, pinned=True,
                half=True))
        self.assertEqual(Row.parse("2busy").name, "back-to-back+2busy")
        self.assertEqual(Row.parse("bidi+100/s").name, "100/s+bidi")

    def test_refuses_what_is_no_row(self):
        for name, message in (("", "not a part of a row"),
                              ("fast", "not a part of a row"),
                              ("0busy", "not a part of a row"),
                              ("1/s+2/s", "rate is given twice"),
                              ("bidi+server", "kind is given twice"),
                              ("2channels", "more channels than callers")):
            with self.assertRaisesRegex(ValueError, message):
                Row.parse(name)

    def test_sets_are_rows_and_each_comes_once(self):
        self.assertEqual(rows.parse_rows("main,1000/s,pinned"),
                         rows.MAIN + [Row(pinned=True)])
        self.assertEqual(rows.parse_rows("full"), rows.FULL)


class Arithmetic(unittest.TestCase):

    def test_figures_keep_three_digits(self):
        self.assertEqual([summary.figure(value) for value in
                          (0.914, 3.04, 28.26, 99.96, 2263.4)],
                         ["0.91", "3.04", "28.3", "100.0", "2263"])

    def test_a_spread_is_median_least_and_most(self):
        self.assertEqual(summary.spread([30.0, 3.0, 28.0]),
                         "28.0 [3.00 to 30.0]")
        self.assertEqual(summary.spread([5.0]), "5.00")
        self.assertEqual(summary.spread([]), "-")

    def test_both_sides_are_added(self):
        run = run_of("verbena")
        self.assertEqual(summary.both_sides(run, "cpu_us"), 6)
        self.assertEqual(summary.both_sides(run, "voluntary", "involuntary"),
                         3)

    def test_ratios_are_to_the_better_in_the_same_round(self):
        runs = [run_of("verbena", 1, p50=10), run_of("grpc-sync", 1, p50=40),
                run_of("grpc-cq", 1, p50=20), run_of("verbena", 2, p50=90),
                run_of("grpc-sync", 2, p50=30), run_of("verbena", 3)]
        self.assertEqual(
            summary.ratios(runs, "back-to-back", "verbena", "p50_us",
                           summary.GRPC), [0.5, 3.0])

    def test_failed_runs_count_nowhere(self):
        failed = {"round": 1, "row": "1000/s", "system": "verbena",
                  "error": "so"}
        self.assertEqual(summary.of([failed]), [])
        self.assertIn("| -", summary.row_table([failed], "1000/s", ["verbena"]))

    def test_tables_have_a_line_a_system(self):
        runs = [run_of("verbena", p50=7), run_of("grpc-sync", p50=14)]
        lines = summary.row_table(runs, "back-to-back",
                                  ["verbena", "grpc-sync"]).splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual(len(set(map(len, lines))), 1)
        cells = [cell.strip() for cell in lines[2].split("|")[1:-1]]
        self.assertEqual(cells, ["verbena", "7.00", "20.0", "99.0", "5000",
                                 "6.00", "3.00", "25.0", "0.50", "1.00", "-"])
        overview = summary.p50_table(runs, ["back-to-back"], ["verbena"])
        self.assertIn("| verbena | 7.00, 5000/s |", overview)


class Processes(unittest.TestCase):

    def peer(self, script, seconds=5):
        return processes.run_peer(["sh", "-c", script], seconds)

    def test_a_peer_is_what_it_prints(self):
        self.assertEqual(self.peer("echo '{\"calls\": 3}'"), {"calls": 3})

    def test_a_peer_that_fails_says_why(self):
        for script, message in (("echo so >&2; exit 3", "status 3: so"),
                                ("echo words", "not JSON: words")):
            with self.assertRaisesRegex(processes.RunFailed, message):
                self.peer(script)
        with self.assertRaises(processes.RunFailed) as failed:
            self.peer("exit 2")
        self.assertEqual(failed.exception.status, 2)
        with self.assertRaisesRegex(processes.RunFailed, "cannot start"):
            processes.run_peer(["/nonexistent"], 1)

    def test_a_peer_that_hangs_is_killed(self):
        with tempfile.NamedTemporaryFile("r") as pid:
            with self.assertRaisesRegex(processes.RunFailed, "still ran"):
                self.peer("echo $$ >%s; exec sleep 600" % pid.name,
                          0.5 - processes.START_AND_STOP_S)
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid.read()), 0)

    def test_neighbours_share_the_session(self):
        printed = self.peer("echo $(ps -o sid= -p $$)")
        with processes.busy_loops(1) as loops:
            self.assertEqual(os.getsid(loops[0].pid), os.getsid(0))
        self.assertEqual(printed, os.getsid(0))

    def test_busy_loops_end_with_what_they_are_beside(self):
        with self.assertRaises(KeyboardInterrupt):
            with processes.busy_loops(2) as loops:
                self.assertEqual([loop.poll() for loop in loops], [None] * 2)
                raise KeyboardInterrupt
        self.assertEqual([loop.returncode for loop in loops], [-9, -9])


class HalfProcessor(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def test_without_control_groups_it_says_what_was_seen(self):
        with self.assertRaisesRegex(OSError, "is no control group"):
            processes.HalfProcessor(self.root)

    def test_either_version_of_control_groups(self):
        for folder, limit, quota in (("", "cpu.max", "50000 100000"),
                                     ("cpu", "cpu.cfs_quota_us", "50000")):
            parent = os.path.join(self.root, folder)
            os.makedirs(parent, exist_ok=True)
            marker = os.path.join(parent, "cgroup.procs")
            with open(marker, "w"):
                half = processes.HalfProcessor(self.root)
            with open(os.path.join(half.path, limit)) as stream:
                self.assertEqual(stream.read(), quota)
            # In a real one the file is no obstacle to removing the folder.
            os.remove(os.path.join(half.path, limit))
            os.remove(marker)
            half.remove()
            self.assertFalse(os.path.exists(half.path))


class Driver(unittest.TestCase):

    def options(self, *words):
        return against_grpc.parse_arguments(["--bin-dir=/nonexistent",
                                             *words])

    def test_every_round_has_all_and_begins_with_another(self):
        turns = list(against_grpc.in_turn(self.options(
            "--rounds=2", "--rows=100/s", "--systems=verbena,socket")))
        self.assertEqual([(number, system) for number, _, system in turns],
                         [(1, "verbena"), (1, "socket"), (2, "socket"),
                          (2, "verbena")])

    def test_only_some_systems_have_streams(self):
        turns = list(against_grpc.in_turn(self.options("--rounds=1",
                                                       "--rows=bidi")))
        self.assertEqual([system for _, _, system in turns],
                         ["verbena", "verbena-callback", "grpc-sync",
                          "grpc-callback"])
        calls = against_grpc.in_turn(self.options("--rounds=1",
                                                  "--rows=100/s"))
        self.assertEqual([system for _, _, system in calls],
                         ["verbena", "verbena-inline", "grpc-sync", "grpc-cq",
                          "socket"])
        self.assertIn("--kind=bidi", against_grpc.peer_command(
            self.options(), Row.parse("bidi"), "verbena"))

    def test_a_command_says_the_row(self):
        command = against_grpc.peer_command(
            self.options("--size=9", "--address=10.0.0.1:0"),
            Row.parse("100/s+4callers+2channels"), "grpc-cq")
        self.assertEqual(command, [
            "/nonexistent/grpc_peer", "--server=cq", "--callers=4",
            "--channels=2", "--kind=unary", "--rate=100", "--size=9",
            "--duration=1s", "--warm_up=0.3s", "--address=10.0.0.1:0"])

    def test_refuses_what_it_does_not_know(self):
        for words in (["--systems=other"], ["--rows=fast"], ["--rounds=0"]):
            with contextlib.redirect_stderr(io.StringIO()):
                with self.assertRaises(SystemExit):
                    self.options(*words)

    def test_programs_that_are_not_built_are_named(self):
        missing = against_grpc.missing_programs(
            self.options("--systems=socket,grpc-sync,grpc-cq"))
        self.assertEqual(missing, ["/nonexistent/grpc_peer",
                                   "/nonexistent/socket_peer"])


if __name__ == "__main__":
    unittest.main()
