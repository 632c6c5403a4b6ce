#!/usr/bin/env python3
"""Compares the working tree with another revision, and finds what is worse.

Runs the programs of both by turns, in rounds, in every row of a fixed list, and
prints medians [least to most] over the rounds, and new/old. Each turn of a row
is two runs, one of each side; the side that goes first changes.

A metric of a row is WORSE if both are true:
  - The median is worse by more than a threshold: p50 8 %, p99 25 %, p99.9 50 %,
    mean 10 %, rate 8 %, processor time 10 %. (Less than 8 % may come from where
    the linker has put the code.)
  - The ranges of the two sides do not overlap. From four rounds on, the one run
    that stands out most is left out. Fewer than three rounds mark nothing.
Rows that are worse are measured again, with as many rounds, and stay WORSE if
they are worse again. "better" follows the same rule, but is measured once. A
percentile counts if 20 calls of each side, in all rounds, were beyond it.

A row that the other revision cannot run is shown as new only, and does not
count. If the other revision prints no mean, the mean of rows with one call at a
time is the time from one call to the next, on both sides.

A row is named by its parts, as in rpc+64B+x32+callback: the layer (verbs,
transport, rpc), a stream (bidi, server, client), or a server of
tools/peer_bench (default, inline); the payload; xN calls outstanding;
callback or coroutine; events (both sides sleep instead of polling); N/s calls
by the clock; Nbusy processes beside that spin; unpinned; pinned (all on one
processor); Ncallers; Nstreams; chat (messages of a stream).

Exit code 0: no row is worse; 1: one is, or could not be measured; 2: nothing
was measured.
"""

import argparse
import json
import os
import platform
import re
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "peer_bench")]

import measured_rows  # noqa: E402
import processes  # noqa: E402
import verdict  # noqa: E402

SIDES = ("new", "old")

# The exit status of a program that does not know a flag.
BAD_FLAGS = 2

# The warm-up of a run, and what starting and stopping its processes takes.
_WARM_UP = 1.2
_START_AND_STOP_S = 0.1

# Nothing that is measured waits for its last call much longer.
_PATIENCE_S = 60


def seconds_of(text):
    """A duration of the programs, 100ms or 1.5s, in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)", text)
    value = found and float(found.group(1)) / (
        1000 if found.group(2) == "ms" else 1)
    if not value:
        raise argparse.ArgumentTypeError(
            "%s is not a duration; write it as 500ms or 2s" % text)
    return value


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="./dev bench --against=REV", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--new", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--old", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--new-name", default="new", help=argparse.SUPPRESS)
    parser.add_argument("--old-name", default="old", help=argparse.SUPPRESS)
    parser.add_argument("--rows", default="*", metavar="PATTERN,...",
                        help="shell patterns of names, e.g. 'rpc+64B+*'")
    parser.add_argument("--rounds", type=int, default=5,
                        help="default: %(default)s")
    parser.add_argument("--duration", default="500ms",
                        help="length of one run (default: %(default)s)")
    parser.add_argument("--once", action="store_true",
                        help="do not measure rows that are worse again")
    parser.add_argument("--json", metavar="FILE",
                        help="write every run to this file")
    parser.add_argument("--list", action="store_true",
                        help="only print the rows, and how long they take")
    options = parser.parse_args(words)
    try:
        options.rows = measured_rows.select(options.rows)
        options.seconds = seconds_of(options.duration)
    except (ValueError, argparse.ArgumentTypeError) as error:
        parser.error(str(error))
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more, not %d" % options.rounds)
    if not options.list and not (options.new and options.old):
        parser.error("--new and --old must say where the programs are")
    return options


def measure(row, folder, options):
    """The metrics of one run. Raises RunFailed."""
    command = row.command(folder, options.duration)
    if row.pinned:
        command = processes.pin(command)
    with processes.busy_loops(row.busy, row.pinned):
        printed = processes.run_peer(command, options.seconds + _PATIENCE_S)
    return metrics_of_bench(printed) if row.program == "rpc_bench" \
        else metrics_of_peer(printed)


def metrics_of_bench(printed):
    """From the JSON of rpc_bench with one result, whatever its age."""
    result, = printed["results"]
    if float(result["errors"]) > 0:
        raise processes.RunFailed("%s errors, the first: %s" % (
            result["errors"], result.get("first_error", "not said")))
    return {**{field: result.get(field) for field in (
        "p50_us", "p99_us", "p999_us", "mean_us", "calls_per_s")},
        "cpu_us": result.get("cpu_us_per_call")}


def metrics_of_peer(printed):
    return {**{field: printed.get(field) for field in (
        "p50_us", "p99_us", "p999_us", "mean_us", "calls_per_s")},
        "cpu_us": printed["client"]["cpu_us"] + printed["server"]["cpu_us"]}


class Comparison:
    """The runs of both sides, made one after the other."""

    def __init__(self, options, run=measure):
        self._options = options
        self._run = run
        self._new_only = set()
        self.runs = []  # One dictionary a run.

    def look(self, number, rows):
        """All rounds of `rows`; `number` is 1, or 2 for those looked at again.
        """
        for turn in range(1, self._options.rounds + 1):
            print("%sround %d of %d, %d rows" %
                  ("second look, " if number == 2 else "", turn,
                   self._options.rounds, len(rows)),
                  file=sys.stderr, flush=True)
            for position, row in enumerate(rows):
                first = (turn + position) % 2
                for side in (SIDES[first], SIDES[1 - first]):
                    self._one(number, turn, row, side)

    def _one(self, number, turn, row, side):
        folder = getattr(self._options, side)
        if side == "old" and row.name in self._new_only:
            return
        if side == "old" and not os.path.exists(
                os.path.join(folder, row.program)):
            self._new_only.add(row.name)
            return
        run = {"look": number, "round": turn, "row": row.name, "side": side,
               "seconds": self._options.seconds}
        try:
            run.update(self._run(row, folder, self._options))
        except processes.RunFailed as failure:
            if side == "old" and failure.status == BAD_FLAGS:
                self._new_only.add(row.name)
                return
            run["error"] = str(failure)
            print("%s, %s: %s" % (row.name, side, failure), file=sys.stderr,
                  flush=True)
        self.runs.append(run)


def show(options, runs):
    """Prints the tables. Returns the exit code."""
    measured = {run["row"] for run in runs}
    rows = [row for row in options.rows if row.name in measured]
    if not rows:
        print("nothing was measured")
        return 2
    print("%s (new) against %s (old); %d processors, Linux %s, rounds: %d of "
          "%s\n" % (options.new_name, options.old_name,
                    len(os.sched_getaffinity(0)), platform.release(),
                    options.rounds, options.duration))
    print(verdict.details(rows, runs))
    print("\n" + verdict.overview(rows, runs))
    worse = verdict.worse_rows(rows, runs)
    failed = verdict.failed_rows(rows, runs)
    print("\n%d of %d rows are worse%s" % (
        len(worse), len(rows), "".join("\n  " + row.name for row in worse)))
    if failed:
        print("%d rows could not be measured; their errors are above%s" % (
            len(failed), "".join("\n  " + row.name for row in failed)))
    return 1 if worse or failed else 0


def write_json(options, runs):
    with open(options.json, "w") as stream:
        json.dump({"new": options.new_name, "old": options.old_name,
                   "processors": len(os.sched_getaffinity(0)),
                   "linux": platform.release(), "rounds": options.rounds,
                   "duration_s": options.seconds, "runs": runs}, stream,
                  indent=1)
        stream.write("\n")


def print_list(options):
    print("\n".join(row.name for row in options.rows))
    run = options.seconds * _WARM_UP + _START_AND_STOP_S
    minutes = len(options.rows) * len(SIDES) * options.rounds * run / 60
    print("%d rows, about %.0f minutes, or more if rows are worse" %
          (len(options.rows), max(1, minutes)), file=sys.stderr)


def main(words):
    options = parse_arguments(words)
    if options.list:
        print_list(options)
        return 0
    missing = sorted({row.program for row in options.rows if not os.path.exists(
        os.path.join(options.new, row.program))})
    if missing:
        print("against_revision: there is no %s in %s" %
              (", ".join(missing), options.new), file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    comparison = Comparison(options)
    status = 0
    try:
        comparison.look(1, options.rows)
        worse = verdict.worse_rows(options.rows, comparison.runs)
        if worse and not options.once:
            comparison.look(2, worse)
    except KeyboardInterrupt:
        print("interrupted; the results so far:", file=sys.stderr)
        status = 130
    found = show(options, comparison.runs)
    if options.json:
        write_json(options, comparison.runs)
    return status or found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
