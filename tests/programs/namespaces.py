"""Two network namespaces, joined by cables."""

import os
import subprocess


class Unavailable(Exception):
    """Namespaces cannot be had: it takes root and ip(8)."""


def addresses(cable):
    """Those of its two ends."""
    return tuple("10.78.%d.%d" % (cable, end) for end in (1, 2))


class Namespaces:
    """Makes them when entered, or raises Unavailable, and removes them at the
    end. Cable N joins interfaces netN."""

    ADDRESSES = addresses(0)

    def __init__(self, cables=1):
        self.cables = cables
        self.names = tuple("verbena-%d-%d" % (os.getpid(), end)
                           for end in (1, 2))

    def prefix(self, end):
        return ("ip", "netns", "exec", self.names[end])

    def __enter__(self):
        try:
            for name in self.names:
                _ip("netns", "add", name)
                _ip("-n", name, "link", "set", "lo", "up")
            for cable in range(self.cables):
                self._join(cable)
        except OSError as error:
            self._remove()
            raise Unavailable(str(error)) from error
        return self

    def _join(self, cable):
        interface = "net%d" % cable
        # Made inside: this host may have an interface of that name itself.
        _ip("-n", self.names[0], "link", "add", interface, "type", "veth",
            "peer", "name", interface, "netns", self.names[1])
        for name, address in zip(self.names, addresses(cable)):
            _ip("-n", name, "addr", "add", address + "/24", "dev", interface)
            _ip("-n", name, "link", "set", interface, "up")

    def __exit__(self, *_):
        self._remove()

    def _remove(self):
        for name in self.names:
            if os.path.exists("/run/netns/" + name):
                # What it tells of an end that went well, it does not decide.
                subprocess.run(["ip", "netns", "delete", name], check=False)


def _ip(*words):
    done = subprocess.run(["ip", *words], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise OSError("ip %s: %s" % (" ".join(words), done.stderr.strip()))
