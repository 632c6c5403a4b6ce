"""The side that waits: starts the servers that the other side asks for.

The sides talk by XML-RPC. A client can choose from the servers of this file
only, and says at which address of this host they listen.
"""

import ipaddress
import json
import os
import shlex
import shutil
import signal
import sys
import time
import xmlrpc.server

import nic_host
import pair
from nic_host import Failed, NotRun

# The ports, counted from the one of --port, which is that of this service.
GRPC, PERFTEST, VERBENA = 1, 2, 3

SIZES = (64, 4096, 65536, 1 << 20)
PERFTEST_TOOLS = ("ib_send_lat", "ib_write_lat", "ib_read_lat",
                  "ib_send_bw", "ib_write_bw", "ib_read_bw")

START_S = 30


def perftest_command(tool, size, device, port, iterations):
    """The same at both sides, apart from the server's address."""
    words = [tool, "-d", device, "-F", "-R", "-s", str(size), "-n",
             str(int(iterations)), "-p", str(port + PERFTEST)]
    return words + (["--report_gbits"] if tool.endswith("_bw") else [])


def server_command(name, bin_dir, device, address, port, iterations):
    """What runs as the server called `name`."""
    at = "%s:%d" % (address, port + VERBENA)
    tool, _, size = name.partition(" ")
    if tool in PERFTEST_TOOLS and size in map(str, SIZES):
        if shutil.which(tool) is None:
            raise NotRun("there is no " + tool)
        return perftest_command(tool, size, device, port, iterations)
    bench = [os.path.join(bin_dir, "tools/rpc_bench/rpc_bench"),
             "--server=" + at, "--device=" + device]
    peers = os.path.join(bin_dir, "tools/peer_bench")
    known = {
        "end-to-end": [os.path.join(bin_dir, "tests/integration/e2e_server"),
                       "--listen=" + at],
        "rpc_bench": bench,
        "rpc_bench --events": bench + ["--events"],
        "verbena_peer": [os.path.join(peers, "verbena_peer"), "--serve",
                         "--address=" + at],
        "grpc_peer": [os.path.join(peers, "grpc_peer"), "--serve",
                      "--address=%s:%d" % (address, port + GRPC)],
    }
    if name not in known:
        raise Failed("there is no server %s" % name)
    if not os.access(known[name][0], os.X_OK):
        raise NotRun("there is no " + known[name][0])
    # The peers serve for as long as their input is open.
    return ["sh", "-c", "tail -f /dev/null | exec " + shlex.join(known[name])]


class Serving:
    """The functions that the other side calls. One server runs at a time."""

    def __init__(self, bin_dir, device, port):
        self._bin_dir = bin_dir
        self._wanted = device
        self._port = port
        self._program = None

    def hello(self, address):
        """Facts about this host, whose address that is."""
        return json.dumps(nic_host.redacted(
            nic_host.facts(self._device(address))))

    def counters(self, address):
        return json.dumps(nic_host.counters(self._device(address)))

    def doctor(self, address):
        return json.dumps(nic_host.redacted(
            doctor(self._bin_dir, self._device(address), 60)))

    def start(self, name, address, iterations):
        """Returns when the server listens. perftest's does so many
        iterations, as its client does."""
        self.stop()
        device = self._device(address)
        command = server_command(name, self._bin_dir, device, address,
                                 self._port, iterations)
        side = pair.Side(device, address,
                         environment={"VERBENA_DEVICE": device})
        # Its braces would be taken for names.
        text = shlex.join(command).replace("{", "{{").replace("}", "}}")
        self._program = pair.Program(side, text, side)
        self._await(name, time.monotonic() + START_S)
        print("serves %s" % name, flush=True)
        return True

    def stop(self):
        """Ends the server; returns the end of what it printed."""
        if self._program is None:
            return ""
        program, self._program = self._program, None
        output = program.output()[-2000:]
        program.close()
        return nic_host.redacted(output)

    def _device(self, address):
        return nic_host.device_at(str(ipaddress.IPv4Address(address)),
                                  self._wanted)

    def _await(self, name, deadline):
        by_kernel = name.partition(" ")[0] in PERFTEST_TOOLS
        while True:
            ended = self._program.process.poll() is not None
            if "listening on" in self._program.output() and not by_kernel:
                return
            if by_kernel and pair.kernel_listens(self._port + PERFTEST):
                return
            if ended:
                raise Failed("the server ended: " + self.stop())
            if time.monotonic() > deadline:
                raise Failed("the server did not listen within %d s: %s" %
                             (START_S, self.stop()))
            time.sleep(pair.POLL_S)


def doctor(bin_dir, device, seconds, *options):
    """What rdma_doctor finds on this host."""
    status, output, complaints = nic_host.run(
        [os.path.join(bin_dir, "tools/rdma_doctor/rdma_doctor"), "--json",
         "--device=" + device, *options], seconds)
    try:
        return json.loads(output)
    except ValueError as error:
        raise Failed("rdma_doctor ended with status %d: %s" %
                     (status, complaints[-1000:])) from error


class _Handler(xmlrpc.server.SimpleXMLRPCRequestHandler):
    timeout = 10  # Nobody may keep the others waiting for longer.


def serve(bin_dir, device, port):
    """Until SIGTERM or an interrupt."""
    serving = Serving(bin_dir, device, port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with xmlrpc.server.SimpleXMLRPCServer(
            ("0.0.0.0", port), _Handler, logRequests=False) as server:
        for function in (serving.hello, serving.counters, serving.doctor,
                         serving.start, serving.stop):
            server.register_function(function)
        print("listening on 0.0.0.0:%d; run `./dev nic-proof --peer=ADDRESS` "
              "on the other host, then end this with ^C" % port, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
        finally:
            serving.stop()
