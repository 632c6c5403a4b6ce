#!/usr/bin/env python3
"""Compares Verbena with gRPC C++ and with a bare Unix socket.

Runs the peers of this folder by turns, in rounds, under the conditions of the
rows, and prints medians [least to most] over the rounds. The ratios are medians
too, each to the best of gRPC's servers, or to the socket, in the same round.
Latency counts from when a call really begins. Of streams there are two servers
each: with handlers that block, and with reactors (-callback).

A row is named by its parts, as in 1000/s+2busy: back-to-back or N/s (calls a
second of all callers), Nbusy (processes beside that spin), Ncallers, Nchannels,
pinned (all on one processor), half (client and server in a control group that
has half a processor), bidi (echoes by a stream of each caller), server
(messages one way). main, full, rxe and streams are sets of rows.
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import processes  # noqa: E402
import rows  # noqa: E402
import summary  # noqa: E402

# The program and its --server.
SYSTEMS = {
    "verbena": ("verbena_peer", "default"),
    "verbena-inline": ("verbena_peer", "inline"),
    "verbena-callback": ("verbena_peer", "callback"),
    "grpc-sync": ("grpc_peer", "sync"),
    "grpc-cq": ("grpc_peer", "cq"),
    "grpc-callback": ("grpc_peer", "callback"),
    "socket": ("socket_peer", "blocking"),
}

# With --hosts: the floors are TCP's, blocking and spinning.
HOSTS_SYSTEMS = ("verbena", "grpc-sync", "grpc-cq", "grpc-callback", "tcp",
                 "tcp-spin")
SYSTEMS.update({name: ("socket_peer", name) for name in ("tcp", "tcp-spin")})

# Those that have streams: by handlers that block, and by reactors, which have
# nothing else here.
BLOCKING_STREAMS = ("verbena", "grpc-sync")
CALLBACK_STREAMS = ("verbena-callback", "grpc-callback")

# Beyond these, one table of all rows is too wide to be read.
OVERVIEW_ROWS_MAX = 6


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin-dir", required=True, metavar="FOLDER",
                        help="where the peers' programs are")
    parser.add_argument("--rows", "--only", default="main", metavar="ROW,...",
                        help="default: main; see --list")
    parser.add_argument("--full", action="store_const", const="full",
                        dest="rows", help="the same as --rows=full")
    parser.add_argument("--list", action="store_true",
                        help="only print the rows")
    parser.add_argument("--systems", metavar="SYSTEM,...",
                        help="default: all that compare on one host, or with\n"
                        "--hosts between two")
    parser.add_argument("--hosts", action="store_true",
                        help="client and server in two network name spaces;\n"
                        "needs root")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--duration", type=float, default=1, metavar="SECONDS",
                        help="length of one run, after its warm-up")
    parser.add_argument("--warm-up", type=float, default=0.3, metavar="SECONDS")
    parser.add_argument("--size", type=int, default=64, metavar="BYTES")
    parser.add_argument("--address", metavar="HOST:PORT",
                        help="where servers listen (default: 127.0.0.1:0)")
    parser.add_argument("--device", help="the device of Verbena's peers")
    parser.add_argument("--json", metavar="FILE",
                        help="write every run to this file")
    options = parser.parse_args(words)
    try:
        options.rows = rows.parse_rows(options.rows)
    except ValueError as error:
        parser.error(str(error))
    default = HOSTS_SYSTEMS if options.hosts else [
        name for name in SYSTEMS if not name.startswith("tcp")]
    options.systems = (options.systems.split(",") if options.systems
                       else list(default))
    for system in options.systems:
        if system not in SYSTEMS:
            parser.error("there is no system %s; there are %s" %
                         (system, ", ".join(SYSTEMS)))
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more, not %d" % options.rounds)
    return options


def missing_programs(options):
    """Those that are needed and not built."""
    paths = {os.path.join(options.bin_dir, SYSTEMS[system][0])
             for system in options.systems}
    return sorted(path for path in paths if not os.access(path, os.X_OK))


def peer_command(options, row, system):
    program, server = SYSTEMS[system]
    command = [os.path.join(options.bin_dir, program), "--server=" + server,
               "--callers=%d" % row.callers, "--channels=%d" % row.channels,
               "--kind=" + row.kind, "--rate=%d" % row.rate,
               "--size=%d" % options.size,
               "--duration=%gs" % options.duration,
               "--warm_up=%gs" % options.warm_up]
    if options.hosts:
        command = processes.NetworkNameSpaces.of_client(command) + [
            "--server_netns=" + processes.NetworkNameSpaces.SERVER,
            "--address=%s:0" % processes.NetworkNameSpaces.SERVER_ADDRESS]
    return command + (["--address=" + options.address] if options.address
                      else [])


def answers(system, kind):
    if kind == "unary":
        return system not in CALLBACK_STREAMS
    return system in BLOCKING_STREAMS + CALLBACK_STREAMS


def in_turn(options):
    """(round, row, system) of every run; each round begins with another."""
    for number in range(1, options.rounds + 1):
        first = (number - 1) % len(options.systems)
        for row in options.rows:
            for system in options.systems[first:] + options.systems[:first]:
                if answers(system, row.kind):
                    yield number, row, system


def run_one(options, row, system, half):
    command = peer_command(options, row, system)
    if row.pinned:
        command = processes.pin(command)
    if row.half:
        command = half.wrap(command)
    device = options.device or ("soft" if options.hosts else None)
    environment = {"VERBENA_DEVICE": device} if device else {}
    with processes.busy_loops(row.busy, row.pinned):
        return processes.run_peer(command, options.duration + options.warm_up,
                                  environment)


def run_all(options, half, runs):
    """Adds one dictionary a run to `runs`."""
    shown = 0
    for number, row, system in in_turn(options):
        if number != shown:
            shown = number
            print("round %d of %d" % (number, options.rounds), file=sys.stderr,
                  flush=True)
        run = {"round": number, "row": row.name, "system": system}
        try:
            run.update(run_one(options, row, system, half))
        except processes.RunFailed as failure:
            run["error"] = str(failure)
            print("%s, %s: %s" % (row.name, system, failure), file=sys.stderr,
                  flush=True)
        runs.append(run)


def show(options, runs):
    names = list(dict.fromkeys(run["row"] for run in runs))
    ran = {run["system"] for run in runs}
    systems = [system for system in options.systems if system in ran]
    print("%d processors, Linux %s, echo of %d bytes, rounds: %d of %g s" %
          (len(os.sched_getaffinity(0)), platform.release(), options.size,
           options.rounds, options.duration))
    if any(row.kind != "unary" for row in options.rows):
        print("handlers of streams: %s block; %s are reactors" %
              (" and ".join(BLOCKING_STREAMS), " and ".join(CALLBACK_STREAMS)))
    if 1 < len(names) <= OVERVIEW_ROWS_MAX:
        print("\n" + summary.p50_table(runs, names, systems))
    for name in names:
        print("\n%s\n" % name)
        print(summary.row_table(
            runs, name, [system for system in systems
                         if answers(system, rows.Row.parse(name).kind)]))
    failed = sum("error" in run for run in runs)
    if failed:
        print("\n%d of %d runs failed; their errors are above." %
              (failed, len(runs)))


def write_json(options, runs):
    with open(options.json, "w") as stream:
        json.dump({"processors": len(os.sched_getaffinity(0)),
                   "linux": platform.release(), "size": options.size,
                   "duration_s": options.duration, "rounds": options.rounds,
                   "device": options.device, "runs": runs}, stream, indent=1)
        stream.write("\n")


def make_half(options):
    """The control group, if rows need it; without it, those are left out."""
    if not any(row.half for row in options.rows):
        return None
    try:
        return processes.HalfProcessor()
    except OSError as error:
        print("left out the rows with half a processor: %s" % error,
              file=sys.stderr)
        options.rows = [row for row in options.rows if not row.half]
        return None


def main(words):
    options = parse_arguments(words)
    if options.list:
        print("\n".join(row.name for row in options.rows))
        return 0
    missing = missing_programs(options)
    if missing:
        print("against_grpc: there is no %s; `./dev bench --against-grpc` "
              "builds all, --systems chooses some" % ", ".join(missing),
              file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    runs = []
    status = 0
    half = make_half(options)
    hosts = (processes.NetworkNameSpaces() if options.hosts
             else contextlib.nullcontext())
    try:
        with hosts:
            run_all(options, half, runs)
    except KeyboardInterrupt:
        print("interrupted; the results so far:", file=sys.stderr)
        status = 130
    except processes.RunFailed as failure:
        print("against_grpc: %s" % failure, file=sys.stderr)
        return 2
    finally:
        if half is not None:
            half.remove()
    show(options, runs)
    if options.json:
        write_json(options, runs)
    return status or (1 if any("error" in run for run in runs) else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
