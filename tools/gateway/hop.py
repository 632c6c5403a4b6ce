#!/usr/bin/env python3
"""What a hop through verbena-gateway costs.

usage: tools/gateway/hop.py [--rounds=N] [--duration=D] [--bin-dir=FOLDER]

The programs of tools/peer_bench echo, four ways: gRPC C++ alone, Verbena alone,
and each client at the other's server, with the gateway between. The ways take
turns, N times; shown are medians. Build first:

  bazel build --config=opt //tools/gateway:verbena-gateway \\
      //tools/peer_bench:grpc_peer //tools/peer_bench:verbena_peer
"""

import argparse
import json
import statistics
import subprocess

# A name, and the options of a peer.
ROWS = [
    ("unary, 64 B", ["--size=64"]),
    ("unary, 4 KiB", ["--size=4096"]),
    ("unary, 64 KiB", ["--size=65536"]),
    ("message and answer in a stream, 64 B", ["--size=64", "--kind=bidi"]),
    ("unary, 64 B, 16 callers", ["--size=64", "--callers=16"]),
]
WAYS = ["gRPC alone", "gRPC, gateway, Verbena", "Verbena, gateway, gRPC",
        "Verbena alone"]


class Running:
    """A program that serves until the end of a `with`."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().split()
        if line[:2] != ["listening", "on"]:
            raise SystemExit("hop.py: %s does not serve" % command[0])
        self.address = line[2]

    def __enter__(self):
        return self.address

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


def measure(command):
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout)


def commands(folder, duration, to_verbena, to_grpc):
    """The peer of each way, without the options of a row."""
    grpc = [folder + "/peer_bench/grpc_peer", "--duration=" + duration]
    verbena = [folder + "/peer_bench/verbena_peer", "--duration=" + duration]
    return [grpc, grpc + ["--target=" + to_verbena],
            verbena + ["--target=" + to_grpc], verbena]


def table(results):
    """Medians of the p50 and of the calls a second, as Markdown."""
    lines = ["| | " + " | ".join(WAYS) + " |", "|---" * 5 + "|"]
    for name, _ in ROWS:
        cells = []
        for way in WAYS:
            runs = results[name, way]
            cells.append("%.0f us, %.0f/s" % (
                statistics.median(run["p50_us"] for run in runs),
                statistics.median(run["calls_per_s"] for run in runs)))
        lines.append("| %s | %s |" % (name, " | ".join(cells)))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--duration", default="1s")
    parser.add_argument("--bin-dir", default="bazel-bin/tools")
    options = parser.parse_args()
    folder = options.bin_dir
    gateway = folder + "/gateway/verbena-gateway"
    results = {(name, way): [] for name, _ in ROWS for way in WAYS}
    with Running(folder + "/peer_bench/verbena_peer", "--serve") as verbena, \
            Running(folder + "/peer_bench/grpc_peer", "--serve") as grpc, \
            Running(gateway, "--from=grpc://127.0.0.1:0",
                    "--to=verbena://" + verbena) as to_verbena, \
            Running(gateway, "--from=verbena://127.0.0.1:0",
                    "--to=grpc://" + grpc) as to_grpc:
        for _ in range(options.rounds):
            for name, row in ROWS:
                for way, command in zip(WAYS, commands(
                        folder, options.duration, to_verbena, to_grpc)):
                    results[name, way].append(measure(command + row))
    print(table(results))


if __name__ == "__main__":
    main()
