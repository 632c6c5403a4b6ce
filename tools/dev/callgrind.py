"""Reads what valgrind's callgrind has written."""

import collections
import re

# A line of a file, and how many instructions it took. The number of the line
# may be a difference to the one before.
_COST = re.compile(r"([+-]?\d+|\*)(?: (\d+))?$")


class Profile:
    """What a program did.

    costs: {(function, object, file, line): instructions}, callees apart. An
      object is a program or a library. The file is the one that the code stands
      in, also where it was inlined into the function from another file.
    calls: {function: how often it was called}.
    """

    def __init__(self):
        self.costs = collections.Counter()
        self.calls = collections.Counter()

    def calls_of(self, name):
        """How often functions were called whose names have `name` in them."""
        return sum(calls for function, calls in self.calls.items()
                   if name in function)


def read_profile(lines):
    """REQUIRES: --compress-strings=no, and one event, as by default."""
    profile = Profile()
    function, binary, file, callee, line = "", "", "", "", 0
    callee_follows = False
    for text in lines:
        key, equals, value = text.rstrip("\n").partition("=")
        if equals:
            if key == "fn":
                function = value
            elif key == "ob":
                binary = value
            elif key in ("fl", "fi", "fe"):
                file = value
            elif key == "cfn":
                callee = value
            elif key == "calls":
                profile.calls[callee] += int(value.split()[0])
            callee_follows = key == "calls"
            continue
        found = _COST.match(key)
        if not found:
            continue
        line = _next_line(line, found.group(1))
        # The line of a call has what the callee took, which is counted there.
        if not callee_follows:
            place = (function, binary, file, line)
            profile.costs[place] += int(found.group(2) or 0)
        callee_follows = False
    return profile


def _next_line(line, text):
    if text == "*":
        return line
    return line + int(text) if text[0] in "+-" else int(text)


def per_call(few, many, name):
    """What a call of the function `name` takes, of which `many` has more.

    Returns {(object, file, line): instructions}, and the sum of what functions
    take that only some calls run, such as those that run by the clock. What
    happens at the start and at the end is in both profiles.
    """
    calls = many.calls_of(name) - few.calls_of(name)
    costs, rare = collections.Counter(), 0
    for key, cost in many.costs.items():
        function, *place = key
        cost = (cost - few.costs[key]) / calls
        # A function that is never called here is a loop that goes on.
        runs = (many.calls[function] - few.calls[function]) / calls
        if 0.01 < runs < 0.9:
            rare += cost
        else:
            costs[tuple(place)] += cost
    return costs, rare
