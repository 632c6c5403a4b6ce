"""What a run consists of: a peer, what spins beside it, half a processor.

All of it ends with this process, however that ends: a peer's client after its
time, its server with the client, a busy loop when it has another parent.

All of it is in one session, because Linux may share processors out by sessions
first (sched_autogroup_enabled): loops in another one would be no neighbours.
"""

import contextlib
import json
import os
import subprocess
import sys
import time

START_AND_STOP_S = 30

_SPIN = """
import os
parent = %d
while os.getppid() == parent:
    for _ in range(1000000):
        pass
"""


class RunFailed(Exception):
    """A peer did not measure; says why."""

    def __init__(self, reason, status=None):
        super().__init__(reason)
        self.status = status  # What it ended with, if that was not 0.


def pin(command):
    """`command` on the first processor that we may use."""
    return ["taskset", "-c", str(min(os.sched_getaffinity(0)))] + command


@contextlib.contextmanager
def busy_loops(count, pinned=False):
    """Processes that spin in user space meanwhile."""
    command = [sys.executable, "-c", _SPIN % os.getpid()]
    loops = []
    try:
        for _ in range(count):
            loops.append(subprocess.Popen(
                pin(command) if pinned else command,
                stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        yield loops
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


class HalfProcessor:
    """A control group whose processes have half of a processor together."""

    def __init__(self, root="/sys/fs/cgroup"):
        """Raises OSError, in words, if this machine lets us make none."""
        seen = []
        for folder, limit, value in (("", "cpu.max", "50000 100000"),
                                     ("cpu", "cpu.cfs_quota_us", "50000")):
            parent = os.path.join(root, folder)
            self.path = os.path.join(parent,
                                     "verbena-peer-bench-%d" % os.getpid())
            if not os.path.exists(os.path.join(parent, "cgroup.procs")):
                seen.append("%s is no control group" % parent)
                continue
            try:
                self._make(limit, value)
                return
            except OSError as error:
                seen.append(str(error))
        raise OSError("cannot make a control group with %s (%s); this needs "
                      "root, and control groups that can be written" %
                      ("half a processor", "; ".join(seen)))

    def _make(self, limit, value):
        os.mkdir(self.path)
        try:
            with open(os.path.join(self.path, limit), "w") as stream:
                stream.write(value)
        except OSError:
            os.rmdir(self.path)
            raise

    def wrap(self, command):
        """`command`, inside from its first instruction on."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"',
                os.path.join(self.path, "cgroup.procs")] + command

    def remove(self):
        """Waits, not for ever, until the last process in it is gone."""
        deadline = time.monotonic() + 5
        while True:
            try:
                os.rmdir(self.path)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


class NetworkNameSpaces:
    """Two network name spaces, joined by a veth pair, for client and server.

    They stand for two hosts. Raises RunFailed, in words, if this machine lets
    us make none.
    """
    CLIENT = "verbena-bench-client"
    SERVER = "verbena-bench-server"
    CLIENT_ADDRESS = "10.79.0.1"
    SERVER_ADDRESS = "10.79.0.2"

    @classmethod
    def of_client(cls, command):
        return ["ip", "netns", "exec", cls.CLIENT] + command

    def __enter__(self):
        self._remove()
        for name in (self.CLIENT, self.SERVER):
            self._ip("netns", "add", name)
        self._ip("link", "add", "veth0", "netns", self.CLIENT, "type", "veth",
                 "peer", "name", "veth0", "netns", self.SERVER)
        for name, address in ((self.CLIENT, self.CLIENT_ADDRESS),
                              (self.SERVER, self.SERVER_ADDRESS)):
            self._ip("-n", name, "address", "add", address + "/24", "dev",
                     "veth0")
            self._ip("-n", name, "link", "set", "veth0", "up")
            self._ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        self._remove()

    @staticmethod
    def _ip(*words):
        try:
            done = subprocess.run(["ip"] + list(words), capture_output=True,
                                  text=True, check=False)
        except OSError as error:
            raise RunFailed("cannot run ip: %s" % error) from error
        if done.returncode != 0:
            raise RunFailed("ip %s: %s; --hosts needs root" %
                            (" ".join(words), done.stderr.strip()))

    def _remove(self):
        for name in (self.CLIENT, self.SERVER):
            subprocess.run(["ip", "netns", "delete", name],
                           capture_output=True, check=False)


def run_peer(command, seconds, environment=None):
    """What a peer that measures for `seconds` has printed, as a dictionary."""
    try:
        peer = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace",
            env={**os.environ, **(environment or {})})
    except OSError as error:
        raise RunFailed("cannot start %s: %s" % (command[0], error)) from error
    try:
        output, complaint = peer.communicate(timeout=seconds + START_AND_STOP_S)
    except subprocess.TimeoutExpired as error:
        raise RunFailed("it still ran %g s after its time" %
                        START_AND_STOP_S) from error
    finally:
        peer.kill()
        peer.wait()
    if peer.returncode != 0:
        raise RunFailed("status %d: %s" % (peer.returncode, complaint.strip()),
                        status=peer.returncode)
    try:
        return json.loads(output)
    except ValueError as error:
        raise RunFailed("its output is not JSON: " + output) from error
