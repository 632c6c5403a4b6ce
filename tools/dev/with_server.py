#!/usr/bin/env python3
"""Starts a server, runs a client against it when it listens, stops it.

The server must print a line with "listening on ADDRESS"; {address} in the
client's arguments becomes that address. Every step is bounded. The exit status
is the client's, or 1 if the server never listened, died, or did not end with
status 0 after SIGTERM.

usage: with_server.py [--timeout=SECONDS] -- SERVER ARG... -- CLIENT ARG...
"""

import re
import subprocess
import sys
import threading

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 15
_LISTENING = re.compile(r"listening on (\S+?),?(?:\s|$)")


class Server:
    """The server process, its output copied to ours line by line."""

    def __init__(self, command):
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace")
        self._ready = threading.Event()
        self.address = None
        self._reader = threading.Thread(target=self._copy, daemon=True)
        self._reader.start()

    def _copy(self):
        for line in self._process.stdout:
            print("server | " + line, end="", flush=True)
            found = _LISTENING.search(line)
            if found and self.address is None:
                self.address = found.group(1)
                self._ready.set()
        self._ready.set()

    def wait_until_it_listens(self):
        ended_or_ready = self._ready.wait(START_TIMEOUT_S)
        if self.address is not None:
            return None
        if ended_or_ready:
            return ("the server ended with status %s before it listened" %
                    self._process.wait(STOP_TIMEOUT_S))
        return ('the server printed no "listening on ADDRESS" within %d s' %
                START_TIMEOUT_S)

    def stop(self):
        """Ends the server. Returns what was wrong with its end, or None."""
        early = self._process.poll()
        if early is None:
            self._process.terminate()
        try:
            status = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return ("the server did not end within %d s of SIGTERM" %
                    STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        if early is not None:
            return "the server ended early, with status %s" % early
        if status != 0:
            return "the server ended with status %s after SIGTERM" % status
        return None


def run(server_command, client_command, timeout_s):
    try:
        server = Server(server_command)
    except OSError as error:
        print("with_server: cannot start the server: %s" % error,
              file=sys.stderr)
        return 1
    status = 1
    try:
        problem = server.wait_until_it_listens()
        if problem is None:
            client = [word.replace("{address}", server.address)
                      for word in client_command]
            sys.stdout.flush()
            status = subprocess.run(client, stdin=subprocess.DEVNULL,
                                    timeout=timeout_s, check=False).returncode
    except OSError as error:
        problem = "cannot start the client: %s" % error
    except subprocess.TimeoutExpired:
        problem = "the client still ran after %d s" % timeout_s
    finally:
        end = server.stop()
    problem = problem or end
    if problem is not None:
        print("with_server: " + problem, file=sys.stderr)
        return status or 1
    return status


def main(arguments):
    timeout_s = 120
    if arguments and arguments[0].startswith("--timeout="):
        timeout_s = float(arguments.pop(0).partition("=")[2])
    if not arguments or arguments[0] != "--" or "--" not in arguments[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    split = arguments.index("--", 1)
    return run(arguments[1:split], arguments[split + 1:], timeout_s)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
