"""The rows that two revisions are compared in, each with its command."""

import dataclasses
import fnmatch
import re

SIZES = ("64B", "4KiB", "64KiB", "1MiB")

_LAYERS = ("verbs", "transport", "rpc")
_STREAMS = ("client", "server", "bidi")
_PEER_SERVERS = ("default", "inline")

# Flags of rpc_bench, by the parts of a name.
_BENCH_FLAGS = {
    "callback": "--api=callback",
    "coroutine": "--api=coroutine",
    "events": "--events",
    "unpinned": "--pin=off",
}

# A part with a number: the field that it sets, or a flag with that number.
_NUMBERS = (
    (re.compile(r"x(\d+)"), "outstanding"),
    (re.compile(r"(\d+)busy"), "busy"),
    (re.compile(r"(\d+)/s"), "--rate=%s"),
    (re.compile(r"(\d+)callers"), "--callers=%s"),
    (re.compile(r"(\d+)streams"), "--streams=%s"),
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement. Its name says all of it, e.g. rpc+64B+x32+callback."""
    name: str
    program: str  # rpc_bench, or verbena_peer of tools/peer_bench.
    flags: tuple
    outstanding: int = 0  # 0: not a number of this row.
    busy: int = 0  # Processes beside that spin.
    pinned: bool = False  # All processes on one processor.
    one_way: bool = False  # Messages have no answer, so no latency either.
    one_at_a_time: bool = False  # A call begins when the one before ends.

    def command(self, folder, duration):
        """What measures for `duration`, a text, with programs of `folder`."""
        command = ["%s/%s" % (folder, self.program), *self.flags,
                   "--duration=" + duration]
        if self.program == "rpc_bench":
            command.append("--json")
        return command

    @classmethod
    def parse(cls, name):
        what, *parts = name.split("+")
        fields = {"outstanding": 0, "busy": 0, "pinned": False}
        flags = []
        for part in parts:
            _read_part(part, what, fields, flags)
        if what in _PEER_SERVERS:
            program = "verbena_peer"
            flags = ["--server=" + what, "--warm_up=100ms"] + flags
        else:
            program = "rpc_bench"
            flags = _bench_flags(what) + flags
        if fields["outstanding"]:
            flags.append("--outstanding=%d" % fields["outstanding"])
        callers_or_rate = any(flag.startswith(("--rate=", "--callers="))
                              for flag in flags)
        return cls(
            name=name, program=program, flags=tuple(flags),
            one_way=what in ("client", "server"),
            one_at_a_time=not callers_or_rate and (
                program == "verbena_peer" or fields["outstanding"] == 1),
            **fields)


def _bench_flags(what):
    if what in _LAYERS:
        return ["--layer=" + what] + (
            ["--verbs-op=echo"] if what == "verbs" else [])
    if what in _STREAMS:
        return ["--layer=rpc", "--kind=" + what]
    raise ValueError("there is no %s to measure" % what)


def _read_part(part, what, fields, flags):
    if part in SIZES:
        # The peers read a number only.
        flags.append("--size=" + (
            part if what not in _PEER_SERVERS else
            {"64B": "64", "4KiB": "4096", "64KiB": "65536"}[part]))
    elif part == "pinned":
        fields["pinned"] = True
    elif part == "chat" and what in _PEER_SERVERS:
        flags.append("--kind=bidi")
    elif part in _BENCH_FLAGS and what not in _PEER_SERVERS:
        flags.append(_BENCH_FLAGS[part])
    else:
        _read_number(part, fields, flags)


def _read_number(part, fields, flags):
    for pattern, meaning in _NUMBERS:
        found = pattern.fullmatch(part)
        if found and meaning in fields:
            fields[meaning] = int(found.group(1))
        elif found:
            flags.append(meaning % found.group(1))
        if found:
            return
    raise ValueError('"%s" is not a part of a row; --help has them all' % part)


# Rows of the layers. With one outstanding, rpc calls in a blocking way, with
# more by callbacks.
_NAMES = ["%s+%s+x%d" % (layer, size, outstanding)
          for size in SIZES for outstanding in (1, 32) for layer in _LAYERS]

_NAMES += ["rpc+%s+x%d+%s" % (size, outstanding, api)
           for size in ("64B", "4KiB") for outstanding in (1, 32)
           for api in ("callback", "coroutine")]

# Not pinned, asleep between calls, by the clock, and beside neighbours.
_NAMES += [
    "rpc+64B+x1+unpinned", "rpc+64B+x32+unpinned",
    "rpc+64B+x1+events", "rpc+64B+x32+events", "transport+64B+x1+events",
    "rpc+64B+x1+1000/s", "rpc+64B+x32+100000/s",
    "verbs+64B+x1+2busy", "rpc+64B+x1+2busy", "rpc+64B+x32+2busy",
    "rpc+4KiB+x1+2busy", "rpc+64B+x1+4busy",
]

_NAMES += [
    "bidi+64B+x1", "bidi+64B+x1+callback", "bidi+64B+x1+coroutine",
    "bidi+64B+x32", "bidi+64KiB+x1",
    "server+64B+x32", "server+64B+x32+callback", "server+64KiB+x32",
    "client+64B+x32",
    "bidi+64B+1000streams+callback", "server+64B+1000streams+callback",
]

# A server as a program that follows the README has it, whose handlers may
# block; and one whose handlers run where it polls.
_NAMES += [
    "default+64B", "default+4KiB", "default+64B+8callers",
    "default+64B+1000/s", "default+64B+2busy", "default+64B+1000/s+2busy",
    "default+64B+pinned", "default+64B+chat",
    "inline+64B", "inline+64B+1000/s", "inline+64B+8callers",
]

ROWS = [Row.parse(name) for name in _NAMES]


def select(patterns):
    """The rows that match one of `patterns`, shell patterns divided by commas.

    Raises ValueError if a pattern matches nothing.
    """
    chosen = set()
    for pattern in patterns.split(","):
        found = {row.name for row in ROWS
                 if fnmatch.fnmatchcase(row.name, pattern)}
        if not found:
            raise ValueError("no row matches %s; --list prints all" % pattern)
        chosen |= found
    return [row for row in ROWS if row.name in chosen]
