"""Runs one line: a server and its client, or a program alone, all bounded."""

import contextlib
import ctypes
import dataclasses
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time

import lines

POLL_S = 0.02
# A program that has done its work has this long to end.
END_S = 10

_PR_SET_CHILD_SUBREAPER = 36


@dataclasses.dataclass
class Side:
    """Where one of the two programs runs."""
    device: str
    address: str
    # Put before the command, e.g. ip netns exec NAME.
    prefix: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)
    gid: int = 0

    def command(self, text, server):
        words = text.format(device=self.device, gid=self.gid,
                            address=server.address, own_address=self.address)
        return list(self.prefix) + shlex.split(words)

    def find_gid(self):
        """Looks its own address up in the device's GID table."""
        run = subprocess.run(
            self.command("ibv_devinfo -v -d {device}", self),
            env=dict(os.environ, **self.environment), check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        if "iWARP" in run.stdout:
            return  # Its addresses are those of IP, and of no table.
        found = re.search(r"GID\[ *(\d+)\]:\s+::ffff:%s\b" %
                          re.escape(self.address), run.stdout)
        if found is None:
            raise LookupError("%s has no GID for %s:\n%s" %
                              (self.device, self.address, run.stdout[-2000:]))
        self.gid = int(found.group(1))


def adopt_orphans():
    """Processes whose parents have ended become children of this process, so
    that it can wait for them."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class Program:
    """One process with its children, and what they print in a file."""

    def __init__(self, side, text, server):
        adopt_orphans()
        self.text = text
        self._log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.process = subprocess.Popen(
            side.command(text, server), stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True,
            env=dict(os.environ, **side.environment))

    def output(self):
        self._log.seek(0)
        return self._log.read()

    def wait(self, seconds):
        """None if it ended with status 0 in time, else what was wrong."""
        try:
            status = self.process.wait(max(seconds, POLL_S))
        except subprocess.TimeoutExpired:
            return "still ran after its bound"
        return None if status == 0 else "ended with status %d" % status

    def close(self):
        """Returns when none of its processes is left: a child holds the ports
        that the next server needs, as qperf's does."""
        group = self.process.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-group, 0)
        self._log.close()


class Failure(Exception):
    """A line did not do what it should."""


def run(line, server_side, client_side, slowness=1):
    """None if `line` passes, else a text that says what was wrong."""
    deadline = time.monotonic() + line.seconds * slowness
    with contextlib.ExitStack() as stack:
        programs = []

        def start(side, text):
            program = Program(side, text, server_side)
            stack.callback(program.close)
            programs.append(program)
            return program

        try:
            _run(line, server_side, client_side, start, deadline)
        except (Failure, OSError) as error:
            return "%s\n%s" % (error, "".join(
                "    --- %s\n%s" % (each.text, each.output()[-1500:])
                for each in programs))
    return None


def run_again(line, server_side, client_side, slowness=1):
    """The same, with as many attempts as the line may make."""
    for attempt in range(line.attempts):
        problem = run(line, server_side, client_side, slowness)
        if problem is None or not re.search(line.again_if, problem):
            break
        print("  %s, attempt %d: %s" % (line.title, attempt + 1, problem),
              flush=True)
    return problem


def _run(line, server_side, client_side, start, deadline):
    server = None
    if line.server is not None:
        server = start(server_side, line.server)
        await_ready(line, server.process, deadline)
    for _ in range(line.clients):
        client = start(client_side, line.client)
        problem = client.wait(deadline - time.monotonic())
        if problem is not None:
            raise Failure("the client " + problem)
        expected = line.expect.replace("{device}", client_side.device)
        if not re.search(expected, client.output()):
            raise Failure("the client did not print " + expected)
    if server is None:
        return
    if line.stays:
        if server.process.poll() is not None:
            raise Failure("the server ended")
        return
    problem = server.wait(END_S)
    if problem is not None:
        raise Failure("the server " + problem)
    if line.refuse and re.search(line.refuse, server.output()):
        raise Failure("the server printed " + line.refuse)


def await_ready(line, process, deadline):
    """Until the server `process` is ready, as `line` says. Or a Failure."""
    while not _is_ready(line, process.pid):
        if process.poll() is not None:
            raise Failure("the server ended with status %d before it listened" %
                          process.returncode)
        if time.monotonic() > deadline:
            raise Failure("the server did not listen")
        time.sleep(POLL_S)


def _is_ready(line, pid):
    if line.ready == lines.PORT:
        return _listens_on_tcp(pid, line.port)
    if line.ready == lines.CM:
        port = line.port
        # A socket that is bound has its name before it listens (the flag).
        return (_names_in(pid, "unix", r"^\S+ \S+ \S+ 00010000 .*"
                          r"@verbena-soft\S*:%d\s*$" % port)
                # Datagrams need no listening.
                or _names_in(pid, "unix",
                             r".*@verbena-soft-datagram\S*:%d\s*$" % port)
                or kernel_listens(port))
    return True


def _proc_net(pid, table):
    """A table of the network namespace that the process is in."""
    try:
        with open("/proc/%d/net/%s" % (pid, table), errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _names_in(pid, table, pattern):
    return re.search(pattern, _proc_net(pid, table), re.MULTILINE) is not None


def _listens_on_tcp(pid, port):
    pattern = r"^ *\d+: [0-9A-F]+:%04X [0-9A-F]+:0000 0A " % port
    return any(_names_in(pid, table, pattern) for table in ("tcp", "tcp6"))


def has_tcp_connection(pid, port):
    """Whether one with that port at either end is established, in the network
    namespace of the process."""
    pattern = (r"^ *\d+: ([0-9A-F]+:%04X [0-9A-F]+:[0-9A-F]{4}|"
               r"[0-9A-F]+:[0-9A-F]{4} [0-9A-F]+:%04X) 01 " % (port, port))
    return any(_names_in(pid, table, pattern) for table in ("tcp", "tcp6"))


def kernel_listens(port):
    """Whether an identifier of the kernel's RDMA CM listens there."""
    if not os.path.exists("/dev/infiniband/rdma_cm"):
        return False
    shown = subprocess.run(["rdma", "resource", "show", "cm_id"], check=False,
                           stdout=subprocess.PIPE, text=True, timeout=60)
    return re.search(r"LISTEN.*:%d\b" % port, shown.stdout) is not None
