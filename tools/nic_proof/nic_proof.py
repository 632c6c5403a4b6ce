#!/usr/bin/env python3
"""Proves on two hosts with RDMA devices that Verbena works there.

  ./dev nic-proof --serve               on the first host: waits for the second
  ./dev nic-proof --peer=ADDRESS        on the second host, with the address of
                                        the first one's RDMA device

The second host runs all steps, each with a bound of its own, and goes on after
one that failed. It writes report.md and report.json, which have no names and
addresses of hosts. The exit status is 0 if no step failed, 1 if one did, and 2
if nothing could run.

Only the TCP ports N (this program), N + 1 (gRPC) and N + 2 (perftest) of the
first host must be open, beside those of the fabric (UDP 4791 for RoCE v2).
"""

import argparse
import contextlib
import ipaddress
import json
import os
import socket
import sys
import tempfile
import time
import traceback
import xmlrpc.client

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE] + [os.path.join(ROOT, *folder.split("/")) for folder in
                         ("tools/dev", "tests/programs", "tests/vm")]

import manifest  # noqa: E402
import nic_host  # noqa: E402
import nic_report  # noqa: E402
import nic_serving  # noqa: E402
from nic_host import Failed, NotRun  # noqa: E402
from test_results import Tally  # noqa: E402

PORT = 18500
NO_DEVICE = """\
  bazel run --config=opt //tools/rdma_doctor    says what a NIC lacks
  rdma link add rxe0 type rxe netdev INTERFACE  makes a device without a NIC,
                                                if the kernel has rdma_rxe
  ./dev nic-proof --rxe                         tries it in virtual machines"""

CONFORMANCE = "//tests/conformance:conformance_test"
# With --quick these tests run, and no others.
QUICK_FILTERS = {
    CONFORMANCE: "--gtest_filter=SendReceive*:WriteRead*",
    manifest.END_TO_END: "--gtest_filter=StatusTest.*:MetadataTest.*"}
# With -R its server listens twice, and a client that comes in between fails;
# see tests/programs/lines.py.
PERFTEST_TRIES = 4
CALLERS = (1, 32)
# The words of tools/peer_bench if no call began while it measured.
TOO_SHORT = "not one call began in --duration"
LONGEST_MILLISECONDS = 60000
ALWAYS = ("hosts", "counters before", "counters after")


def entries(iwarp=False):
    """The tests that run on one host, those of the guests with a device."""
    guests = [manifest.ON_SIW] if iwarp else manifest.APART
    return [each for guest in guests for each in guest
            if isinstance(each, manifest.Test)
            and each.label.startswith("//tests/") and each.device != "soft0"]


def between_hosts():
    """The tests of one host that call a server of the other."""
    return next(pair.client for pair in manifest.JOINED
                if isinstance(pair.client, manifest.Test))


def targets():
    """What `./dev nic-proof` builds."""
    labels = [each.label for each in entries()] + [
        "//tests/integration:e2e_server", "//tools/rdma_doctor",
        "//tools/rpc_bench", "//tools/peer_bench:verbena_peer",
        "//tools/peer_bench:grpc_peer"]
    return list(dict.fromkeys(labels))


class Proof:
    """All steps of the second host, and what they found.

    A step is a function that gets the seconds that it may take. It returns what
    it found, or raises Failed or NotRun.
    """

    def __init__(self, options, address, device, peer):
        self.options = options
        self.own = address
        self.device = device
        self.address = options.peer
        self.peer = peer
        self.steps = []
        self.scratch = tempfile.TemporaryDirectory(prefix="verbena-nic-")
        # Whether the other host answers.
        self.joined = False

    def run_all(self):
        """Runs the steps in turn, and prints each result."""
        self.step("hosts", 120, self.hosts)
        before = self.step("counters before", 60, self.read_counters)
        self.step("rdma_doctor", 120, self.doctor)
        for entry in self.chosen_entries():
            self.step(entry.label.rpartition(":")[2], entry.seconds,
                      lambda seconds, entry=entry: self.test(entry, seconds),
                      no_rnr=entry.no_rnr)
        entry = between_hosts()
        self.step("end to end between the hosts", entry.seconds,
                  lambda seconds: self.served(
                      "end-to-end", self.test, entry, seconds, {
                          "VERBENA_TEST_SERVER": "%s:%d" % (
                              self.address, self.port(nic_serving.VERBENA))}),
                  no_rnr=True)
        for name in ("rpc_bench", "rpc_bench --events"):
            self.step(name, 300, lambda seconds, name=name: self.served(
                name, self.rpc_bench, name, seconds), no_rnr=True)
        for tool in nic_serving.PERFTEST_TOOLS:
            self.step(tool, 300, lambda seconds, tool=tool: self.perftest(
                tool, seconds))
        for name, port in (("verbena_peer", nic_serving.VERBENA),
                           ("grpc_peer", nic_serving.GRPC)):
            self.step(name, 400, lambda seconds, name=name, port=port:
                      self.served(name, self.calls, name, port, seconds))
        self.step("counters after", 60, lambda seconds: self.compare_counters(
            before, seconds))

    def step(self, name, seconds, function, no_rnr=False):
        """Adds one step to the list, and returns what it found. Leaves out
        what --only does not name."""
        if name not in ALWAYS and not any(
                text in name for text in self.options.only.split(",")):
            return {}
        began = time.monotonic()
        record = {"name": name, "result": "passed", "reason": "", "found": {}}
        before = self.errors_now()
        try:
            record["found"] = function(seconds)
        except NotRun as reason:
            record["result"], record["reason"] = "not run", str(reason)
        except Failed as reason:
            record["result"], record["reason"] = "failed", str(reason)
            record["found"] = getattr(reason, "found", {})
        except Exception:  # pylint: disable=broad-except
            # A program that prints what no one expected must not end the rest.
            record["result"] = "failed"
            record["reason"] = "nic-proof itself\n" + traceback.format_exc()
        record["seconds"] = round(time.monotonic() - began, 1)
        record["error counters"] = {
            side: nic_host.growth(before[side], after)
            for side, after in self.errors_now().items() if side in before}
        unready = [name for grown in record["error counters"].values()
                   for name in grown if "rnr" in name]
        if no_rnr and unready and record["result"] == "passed":
            record["result"] = "failed"
            record["reason"] = ("%s grew: a message met an empty receive queue"
                                % ", ".join(unready))
        self.steps.append(record)
        print("%-30s %-8s %6.1f s  %s" % (
            name, record["result"], record["seconds"],
            record["reason"].partition("\n")[0][:200]), flush=True)
        return record["found"]

    def errors_now(self):
        """The error counters of each side that answers."""
        with contextlib.suppress(Failed, NotRun):
            return {side: nic_host.errors_in(found)
                    for side, found in self.read_counters(0).items()}
        return {}

    def call(self, function, *arguments):
        """Calls a function of the other side."""
        try:
            return getattr(self.peer, function)(*arguments)
        except xmlrpc.client.Fault as fault:
            kind, _, reason = fault.faultString.partition(">:")
            raise (NotRun if NotRun.__name__ in kind else Failed)(
                "the serving side: " + reason) from fault
        except (OSError, xmlrpc.client.Error) as error:
            raise Failed("the serving side does not answer: %s" %
                         error) from error

    def need_peer(self):
        if not self.joined:
            raise NotRun("the serving side did not answer")

    def port(self, offset):
        return self.options.port + offset

    def hosts(self, _seconds):
        found = {"measuring": nic_host.facts(self.device)}
        try:
            found["serving"] = json.loads(self.call("hello", self.address))
        except (Failed, NotRun) as reason:
            raise with_found(Failed(str(reason)), found) from reason
        self.joined = True
        revisions = {each.get("verbena") for each in found.values()}
        if len(revisions) > 1:
            raise with_found(Failed("the sides run different revisions: %s" %
                                    ", ".join(map(str, revisions))), found)
        return found

    def read_counters(self, _seconds):
        found = {"measuring": nic_host.counters(self.device)}
        if self.joined:
            found["serving"] = json.loads(self.call("counters", self.address))
        return found

    def compare_counters(self, before, seconds):
        return {side: nic_host.growth(before.get(side, {}), after)
                for side, after in self.read_counters(seconds).items()
                if side in before}

    def doctor(self, seconds):
        """On both hosts; fails if one has an error."""
        count = ["--count=20"] if self.options.quick else []
        found = {"measuring": nic_serving.doctor(
            self.options.bin_dir, self.device, seconds, *count)}
        if self.joined:
            found["serving"] = json.loads(self.call("doctor", self.address))
            with self.server("rpc_bench"):
                found["measuring, to the peer"] = nic_serving.doctor(
                    self.options.bin_dir, self.device, seconds, "--noself-test",
                    "--peer=%s:%d" % (self.address,
                                      self.port(nic_serving.VERBENA)), *count)
        errors = ["%s: %s" % (side, finding["seen"])
                  for side, report in found.items()
                  for finding in report["findings"]
                  if finding["level"] == "error"]
        if errors:
            raise with_found(Failed("; ".join(errors)), found)
        return found

    def chosen_entries(self):
        chosen = entries(nic_host.is_iwarp(self.device))
        return ([each for each in chosen if each.label == CONFORMANCE]
                if self.options.quick else chosen)

    def test(self, entry, seconds, environment=None):
        """A test program; fails with the names of the cases that did."""
        words = {"bin": self.options.bin_dir, "repository": ROOT,
                 "address": self.own}
        xml = os.path.join(self.scratch.name, "report.xml")
        with contextlib.suppress(FileNotFoundError):
            os.remove(xml)
        path = entry.label.strip("/").replace(":", "/")
        command = ([os.path.join(self.options.bin_dir, path)] +
                   [each.format(**words) for each in entry.arguments] +
                   ["--gtest_output=xml:" + xml])
        if self.options.quick:
            command.append(QUICK_FILTERS[entry.label])
        problem = None
        try:
            status, output, complaints = nic_host.run(command, seconds, {
                "VERBENA_DEVICE": self.device, "VERBENA_TEST_ADDRESS": self.own,
                **{name: value.format(**words)
                   for name, value in entry.environment},
                **(environment or {})})
            if status != 0:
                problem = "it ended with status %d" % status
        except Failed as failed:
            problem, output, complaints = str(failed), "", ""
        text = None
        if os.path.exists(xml):
            with open(xml, errors="replace") as stream:
                text = stream.read()
        tally = Tally()
        tally.add_test(path.rpartition("/")[2], problem, text)
        found = {"passed": tally.passed, "failed": tally.failed,
                 "skipped": tally.skipped, "failures": tally.failures}
        if tally.failed:
            found["output"] = (output + complaints)[-4000:]
            raise with_found(Failed(tally.summary() + ": " +
                                    tally.failures[0]), found)
        return found

    @contextlib.contextmanager
    def server(self, name):
        """While that server of the other side runs. Failures get its output."""
        self.need_peer()
        self.call("start", name, self.address, self.options.iterations)
        try:
            yield
        except Failed as failed:
            output = self.call("stop").strip()
            if output:
                failed.args = ("%s\nthe server printed:\n%s" %
                               (failed, output),)
            raise
        finally:
            self.call("stop")

    def served(self, name, function, *arguments):
        with self.server(name):
            return function(*arguments)

    def rpc_bench(self, name, seconds):
        path = os.path.join(self.scratch.name, "bench.json")
        quick = self.options.quick
        command = [
            os.path.join(self.options.bin_dir, "tools/rpc_bench/rpc_bench"),
            "--target=%s:%d" % (self.address, self.port(nic_serving.VERBENA)),
            "--device=" + self.device, "--json=" + path, "--verbs-op=echo",
            "--duration=" + ("200ms" if quick else "1s"),
            "--layer=" + ("rpc" if quick else "verbs,transport,rpc"),
            "--size=" + ",".join(map(str, self.sizes())),
            "--outstanding=" + ",".join(map(str, CALLERS))]
        if name.endswith("--events"):
            command.append("--events")
        status, _, complaints = nic_host.run(command, seconds)
        if status != 0:
            raise Failed("it ended with status %d\n%s" %
                         (status, complaints[-2000:]))
        with open(path) as stream:
            found = json.load(stream)
        wrong = ["%s, %d bytes, %d outstanding: %s" % (
            each["layer"], each["size_bytes"], each["outstanding"],
            each.get("first_error"))
            for each in found["results"] if each.get("errors")]
        if wrong:
            raise with_found(Failed("calls failed: " + "; ".join(wrong)), found)
        return found

    def sizes(self):
        return nic_serving.SIZES[:1] if self.options.quick else (
            nic_serving.SIZES)

    def perftest(self, tool, seconds):
        """All sizes of one tool, by the last line of its table."""
        deadline = time.monotonic() + seconds
        rows = []
        for size in self.sizes():
            command = nic_serving.perftest_command(
                tool, size, self.device, self.options.port,
                self.options.iterations) + [self.address]
            failures = []
            while True:
                try:
                    with self.server("%s %d" % (tool, size)):
                        row = self.perftest_row(command,
                                                deadline - time.monotonic())
                    rows.append({**row, "failed_tries": failures})
                    break
                except Failed as failed:
                    failures.append(str(failed))
                    if len(failures) == PERFTEST_TRIES:
                        raise with_found(failed, {"rows": rows})
        return {"rows": rows}

    @staticmethod
    def perftest_row(command, seconds):
        status, output, complaints = nic_host.run(command, seconds)
        row = nic_report.perftest_row(output)
        if status != 0 or row is None:
            raise Failed("it ended with status %d and %s figures\n%s" % (
                status, "no" if row is None else "with",
                (output + complaints)[-2000:]))
        return row

    def calls(self, name, port, seconds):
        """Blocking calls of one and of many threads on one channel."""
        deadline = time.monotonic() + seconds
        rows = []
        for size in self.sizes():
            for callers in CALLERS:
                # It starts an idle server of its own, too.
                try:
                    row = self.calls_row([
                        os.path.join(self.options.bin_dir, "tools/peer_bench",
                                     name),
                        "--target=%s:%d" % (self.address, self.port(port)),
                        "--address=%s:0" % self.own, "--size=%d" % size,
                        "--callers=%d" % callers], deadline)
                except Failed as failed:
                    raise with_found(failed, {"rows": rows})
                rows.append({"size_bytes": size, "callers": callers, **row})
        return {"rows": rows}

    def calls_row(self, command, deadline):
        """One line of figures. On an emulated processor a call may take longer
        than is measured, so that none begins: then it is measured for longer.
        """
        milliseconds = 200 if self.options.quick else 1000
        while True:
            status, output, complaints = nic_host.run(
                command + ["--duration=%dms" % milliseconds],
                deadline - time.monotonic(), {"VERBENA_DEVICE": self.device})
            if status == 0:
                return json.loads(output)
            if (TOO_SHORT not in complaints or
                    milliseconds >= LONGEST_MILLISECONDS):
                raise Failed("it ended with status %d\n%s" %
                             (status, complaints[-2000:]))
            milliseconds *= 4


def with_found(reason, found):
    """The exception, with what was found all the same."""
    reason.found = found
    return reason


def own_address_towards(peer):
    """The address of this host from which packets to `peer` come."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, 9))
        return probe.getsockname()[0]


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="./dev nic-proof", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin-dir", default=os.path.join(ROOT, "bazel-bin"),
                        help=argparse.SUPPRESS)
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--serve", action="store_true",
                      help="wait for the other host")
    side.add_argument("--peer", metavar="ADDRESS",
                      help="the IPv4 address of the serving host's RDMA device")
    side.add_argument("--targets", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--device", metavar="NAME",
                        default=os.environ.get("VERBENA_DEVICE", ""),
                        help="default: $VERBENA_DEVICE, or the RDMA device of "
                        "the address")
    parser.add_argument("--port", type=int, default=PORT, metavar="N",
                        help="the same at both hosts (default: %(default)s)")
    parser.add_argument("--out", metavar="DIR", default="nic-proof-results",
                        help="where the reports go (default: %(default)s)")
    parser.add_argument("--quick", action="store_true",
                        help="one size, short measurements, and few tests")
    parser.add_argument("--iterations", type=int, metavar="N",
                        help="of perftest (default: 1000; with --quick 100)")
    parser.add_argument("--only", default="", metavar="TEXT,...",
                        help="only the steps whose names contain a TEXT, and"
                        " hosts and counters")
    options = parser.parse_args(arguments)
    options.iterations = options.iterations or (100 if options.quick else 1000)
    if options.peer:
        try:
            options.peer = str(ipaddress.IPv4Address(
                socket.gethostbyname(options.peer)))
        except OSError as error:
            parser.error("--peer=%s: %s" % (options.peer, error))
    return options


def main(arguments):
    options = parse(arguments)
    if options.targets:
        print(" ".join(targets()))
        return 0
    try:
        if options.serve:
            if options.device or not nic_host.devices():
                nic_host.device_at("0.0.0.0", options.device)
            return nic_serving.serve(options.bin_dir, options.device,
                                     options.port)
        own = own_address_towards(options.peer)
        device = nic_host.device_at(own, options.device)
    except (NotRun, OSError) as reason:
        print("nic-proof: %s" % reason, file=sys.stderr)
        if not nic_host.devices():
            print(NO_DEVICE, file=sys.stderr)
        return 2
    os.makedirs(options.out, exist_ok=True)
    # For each answer of the other side.
    socket.setdefaulttimeout(120)
    peer = xmlrpc.client.ServerProxy("http://%s:%d" % (options.peer,
                                                       options.port))
    proof = Proof(options, own, device, peer)
    try:
        proof.run_all()
    finally:
        report = nic_host.redacted({"format": 1, "quick": options.quick,
                                    "steps": proof.steps})
        paths = [os.path.join(options.out, "report." + kind)
                 for kind in ("md", "json")]
        with open(paths[0], "w") as stream:
            stream.write(nic_report.markdown(report))
        with open(paths[1], "w") as stream:
            json.dump(report, stream, indent=1)
            stream.write("\n")
    print("Written: " + " ".join(paths))
    return 1 if any(step["result"] == "failed" for step in proof.steps) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
