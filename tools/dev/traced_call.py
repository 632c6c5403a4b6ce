#!/usr/bin/env python3
"""Lists what a 64 B unary call runs through, at the client and at the server.

Makes blocking calls with rpc_bench on the software device, one side under
valgrind's callgrind, twice with different numbers of calls: the difference is
what a call takes. Prints each file of ours with its functions, and how many
instructions of a call are there, code inlined from headers included. Then
holds docs/internals/call.md against that.

Exit status: 0 if the document names what runs; 1 if not; 2 if the runs failed.

usage: traced_call.py BENCH

BENCH is a tools/rpc_bench with line numbers, as ./dev call-path builds it.
"""

import collections
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tools", "style")]

import call_path  # noqa: E402
import callgrind  # noqa: E402
from source_tree import SourceTree, functions  # noqa: E402

FEW_CALLS, MANY_CALLS = 2000, 12000
# The run that has waited least counts, of those with as many calls.
ROUNDS = 3
# A function that every call runs once. rpc_bench also makes calls that it does
# not count.
ONCE = {"client": "::BlockingUnaryCall(", "server": "::ServerImpl::OnCall("}
# Instructions of a line in a call. Lines that only some calls run have fewer.
RUN_MIN = 0.9
# Instructions of a file in a call. The document need not name a file with
# fewer, nor those that have no part in a call of their own.
NAMED_MIN = 20
UNNAMED = ("transport/base/", "transport/soft/")
OURS = ("proto/", "rpc/", "transport/")
DEVICE = "transport/soft/"


class Costs:
    """The instructions of a call at one side, by what they belong to."""

    def __init__(self, tree, costs, rare):
        self._tree = tree
        self._functions = {}  # By path, in their order.
        self.files = {}       # Ours: {path: {function: instructions}}.
        self.others = collections.Counter({"now and then": rare})
        self.total = sum(costs.values()) + rare
        run = set()
        for (binary, file, line), cost in costs.items():
            path = self._path_of(file)
            if path is None:
                self.others[_name_of_other(binary, file)] += cost
                continue
            name = self._function_at(path, line)
            if cost >= RUN_MIN:
                run.add((path, name))
            self.files.setdefault(path, collections.Counter())[name] += cost
        for path in list(self.files):
            self._keep(path, {name for each, name in run if each == path})

    def _keep(self, path, names):
        """Drops functions that no call runs, and the file if none is left."""
        costs = self.files.pop(path)
        self.others["now and then"] += sum(
            cost for name, cost in costs.items() if name not in names)
        if names:
            self.files[path] = {name: costs[name] for name in names}

    def _path_of(self, file):
        """The path in this repository, or None if it is not our code."""
        parts = file.split("/")
        if "bazel-out" in parts:
            return None
        for first in range(len(parts)):
            path = "/".join(parts[first:])
            if path.startswith(OURS) and self._tree.get(path):
                return path
        return None

    def _function_at(self, path, line):
        if path not in self._functions:
            self._functions[path] = functions(self._tree.get(path))
        for each in self._functions[path]:
            if line <= each.last_line:
                return each.name
        return "(no function)"

    def lines(self, paths):
        return sum(len(self._tree.get(path).lines) for path in paths)

    def sum_of(self, paths):
        return sum(sum(self.files[path].values()) for path in paths)


def _name_of_other(binary, file):
    if "bazel-out" in file:
        return "generated code"
    for part, name in (("/protobuf/", "protobuf"), ("absl/", "absl"),
                       ("/c++/", "the C++ library"), ("tools/", "rpc_bench")):
        if part in file:
            return name
    return os.path.basename(binary).partition(".so")[0]


def measure(bench, traced):
    """What a call takes at the side `traced`, as callgrind.per_call()."""
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            profiles = []
            for calls in (FEW_CALLS, MANY_CALLS):
                out = os.path.join(folder, str(calls))
                run(bench, traced, calls, out)
                with open(out, encoding="utf-8") as profile:
                    profiles.append(callgrind.read_profile(profile))
            rounds.append(callgrind.per_call(*profiles, ONCE[traced]))
    return min(rounds, key=lambda measured: sum(measured[0].values()))


def run(bench, traced, calls, out):
    valgrind = ["valgrind", "-q", "--tool=callgrind", "--compress-strings=no",
                "--compress-pos=no", "--callgrind-out-file=" + out]
    server = [bench, "--server=127.0.0.1:0", "--device=soft"]
    client = [bench, "--target={address}", "--device=soft", "--layer=rpc",
              "--size=64", "--outstanding=1", "--pin=off",
              "--iterations=%d" % calls]
    if traced == "server":
        server = valgrind + server
    else:
        client = valgrind + client
    ran = subprocess.run(
        [sys.executable, os.path.join(HERE, "with_server.py"), "--timeout=300",
         "--", *server, "--", *client], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)
    if ran.returncode != 0 or not os.path.exists(out):
        print(ran.stdout, file=sys.stderr)
        print("traced_call: the run of %d calls failed (above)" % calls,
              file=sys.stderr)
        sys.exit(2)


def report(side, costs):
    print("== %s: %.0f instructions a call" % (side, costs.total))
    for path in sorted(costs.files, key=lambda path: -costs.sum_of([path])):
        print("%7.1f  %s" % (costs.sum_of([path]), path))
        for name, cost in collections.Counter(costs.files[path]).most_common():
            print("%15.1f  %s" % (cost, name))
    print("Others:")
    for name, cost in costs.others.most_common():
        print("%7.1f  %s" % (cost, name))
    device = [path for path in costs.files if path.startswith(DEVICE)]
    above = [path for path in costs.files if path not in device]
    for paths, what in ((above, "Ours"), (device, "The software device")):
        print("%s: %d files with %d lines, %.0f instructions" %
              (what, len(paths), costs.lines(paths), costs.sum_of(paths)))


def compare(costs, places):
    """Prints how the document differs. Returns whether it does."""
    named = set()
    idle = []
    for path, names in places:
        named.add(path)
        run_names = {name.rpartition("::")[2]
                     for name in costs.files.get(path, {})}
        idle += ["%s %s" % (path, name) for name in names
                 if name.rpartition("::")[2] not in run_names]
    missing = [path for path in costs.files
               if path not in named and not path.startswith(UNNAMED)
               and costs.sum_of([path]) >= NAMED_MIN]
    print("Named in %s, and not run: %s" %
          (call_path.DOCUMENT, ", ".join(idle) or "nothing"))
    print("Run (%d instructions or more), and not named: %s" %
          (NAMED_MIN, ", ".join(sorted(missing)) or "nothing"))
    return bool(idle or missing)


def main(arguments):
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    tree = SourceTree.read(ROOT)
    wrong = False
    for heading, side in zip(call_path.SIDES, ("client", "server")):
        costs = Costs(tree, *measure(arguments[0], side))
        report(side, costs)
        wrong |= compare(costs, call_path.places_of_side(tree, heading))
        print()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
