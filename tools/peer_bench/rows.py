"""The rows of the table: under which conditions the peers are compared."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Row:
    """One condition; its name says all of it, e.g. 1000/s+2busy+pinned."""
    rate: int = 0  # Calls a second of all callers; 0 is back to back.
    busy: int = 0  # Processes beside that spin.
    callers: int = 1
    channels: int = 1
    pinned: bool = False  # All on one processor.
    half: bool = False  # Client and server have half a processor together.
    # bidi: echoes by a stream of each caller; server: messages one way.
    kind: str = "unary"

    @property
    def name(self):
        parts = ["%d/s" % self.rate if self.rate else "back-to-back"]
        if self.busy:
            parts.append("%dbusy" % self.busy)
        if self.callers > 1:
            parts.append("%dcallers" % self.callers)
        if self.channels > 1:
            parts.append("%dchannels" % self.channels)
        parts += [each for each in ("pinned", "half") if getattr(self, each)]
        parts += [self.kind] if self.kind != "unary" else []
        return "+".join(parts)

    @classmethod
    def parse(cls, name):
        """The row of that name; its parts may be in any order."""
        fields = {}
        for part in name.split("+"):
            field, value = _parse_part(part)
            if field in fields:
                raise ValueError("%s: %s is given twice" % (name, field))
            fields[field] = value
        row = cls(**fields)
        if row.channels > row.callers:
            raise ValueError("%s: more channels than callers" % name)
        return row


_NUMBER = re.compile(r"([1-9]\d*)(/s|busy|callers?|channels?)")


def _parse_part(part):
    if part == "back-to-back":
        return "rate", 0
    if part in ("pinned", "half"):
        return part, True
    if part in ("bidi", "server"):
        return "kind", part
    found = _NUMBER.fullmatch(part)
    if not found:
        raise ValueError(
            '"%s" is not a part of a row: parts are back-to-back, pinned, '
            "half, bidi, server, and with a number N/s, Nbusy, Ncallers, "
            "Nchannels" % part)
    field = {"/": "rate", "b": "busy", "ca": "callers", "ch": "channels"}
    unit = found.group(2)
    return field.get(unit[0]) or field[unit[:2]], int(found.group(1))


MAIN = [Row.parse(name) for name in (
    "back-to-back", "1000/s", "back-to-back+2busy", "1000/s+2busy")]

_RATES = (0, 100, 1000, 10000)

STREAMS = [Row(kind="bidi"), Row(kind="server"),
           Row(kind="bidi", callers=8), Row(kind="bidi", rate=1000)]

FULL = (
    [Row(rate=rate, busy=busy) for busy in (0, 1, 2, 4) for rate in _RATES]
    + [Row(callers=callers, channels=channels) for callers in (2, 4, 8, 16)
       for channels in (1, 4, 16) if channels <= callers]
    + [Row(pinned=True, **more) for more in (
        {}, {"rate": 1000}, {"callers": 8}, {"busy": 2},
        {"busy": 2, "rate": 1000})]
    + [Row(half=True, **more) for more in (
        {}, {"rate": 100}, {"rate": 1000}, {"callers": 8})]
    + STREAMS)


# What makes sense on an emulated processor, which makes a call a thousand times
# slower than a real one.
RXE = [Row.parse(name) for name in (
    "back-to-back", "100/s", "back-to-back+2busy", "100/s+2busy",
    "back-to-back+8callers", "back-to-back+pinned")]

_SETS = {"main": MAIN, "full": FULL, "rxe": RXE, "streams": STREAMS}


def parse_rows(text):
    """The rows that a list of names says, of which some name whole sets."""
    rows = []
    for name in text.split(","):
        rows += _SETS.get(name) or [Row.parse(name)]
    return list(dict.fromkeys(rows))
