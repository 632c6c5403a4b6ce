"""Comments that begin with a word that names nothing.

"Bytes granted to the peer so far" is understood at once; "What the peer has
been granted" or "It is granted" is read twice. The tree had many of them when
this check was written, so each folder has a number that may only fall.
"""

import re

from source_tree import Problem

_COMMENT = re.compile(r"^\s*//+ (.*)$")
_TRAILING = re.compile(r"\S  // (.*)$")
_NAMES_NOTHING = re.compile(
    r"(What|Who|Whoever|One|That|Of|The same|Such|Likewise|So many|It|This)\b")

# By the first folder of the path. Lower a number as comments are mended.
MOST = {"proto": 2}  # In code that the compiler writes.


def beginnings(source):
    """(line number, text) of each comment's first line."""
    inside = False
    for number, line in enumerate(source.lines, start=1):
        comment = _COMMENT.match(line)
        if comment:
            if not inside:
                yield number, comment.group(1)
            inside = True
            continue
        trailing = _TRAILING.search(line)
        if trailing:
            yield number, trailing.group(1)
        # The lines below a trailing comment go on with it.
        inside = trailing is not None


def naming_nothing(tree):
    """{folder: [(path, line number)]}."""
    found = {}
    for source in tree.cpp():
        for number, text in beginnings(source):
            if _NAMES_NOTHING.match(text):
                folder = source.path.partition("/")[0]
                found.setdefault(folder, []).append((source.path, number))
    return found


def check_beginnings(tree, most=None):
    """No folder has more comments that begin with a word that names nothing."""
    most = MOST if most is None else most
    found = naming_nothing(tree)
    for folder in sorted(set(most) | set(found)):
        places, allowed = found.get(folder, []), most.get(folder, 0)
        if len(places) > allowed:
            for path, number in places:
                yield Problem(path, number, "begin with a noun: %s/ has %d "
                              "comments that do not, at most %d" %
                              (folder, len(places), allowed))
        elif len(places) < allowed:
            yield Problem("tools/style/prose.py", 1, "%s/ has only %d left: "
                          "lower its number from %d" %
                          (folder, len(places), allowed))
