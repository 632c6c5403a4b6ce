"""Holds "The life of one call" in docs/internals/call.md against the tree.

ARCHITECTURE.md links to the page, so that a reader finds it.

The section has a numbered list a side, under the headings "### At the client"
and "### At the server", in the order in which the code runs. Each item begins
with where it is, a file and the functions of it that the call goes through,
and says what happens there:

    3. `rpc/channel.cc` `Channel::Function`, `Channel::Other`: takes a slot.

An item may name several files. A function of a class is named with its class,
wherever it is defined. What follows the colon is prose.
"""

import re

from source_tree import Problem, functions

DOCUMENT = "docs/internals/call.md"
ENTRANCE = "ARCHITECTURE.md"
SECTION = "## The life of one call"
SIDES = ("### At the client", "### At the server")
FILES_MAX = 32
LINES_MAX = 4500

_ITEM = re.compile(r"\d+\. ")
_FILE = re.compile(r"`([\w/]+\.(?:cc|h))`")
_FUNCTION = re.compile(r"`(~?\w+(?:::~?\w+)*)`")


def check_call_path(tree):
    """Each step of a call is where the page of a call says that it is."""
    document, entrance = tree.get(DOCUMENT), tree.get(ENTRANCE)
    if entrance is None or "](%s" % DOCUMENT not in entrance.text:
        yield Problem(ENTRANCE, 1, "it does not link to " + DOCUMENT)
    for side in SIDES:
        files = set()
        items = list(_items_of(document, side)) if document else []
        if not items:
            yield Problem(DOCUMENT, 1, "no numbered list under %s, %s" %
                          (SECTION, side))
        for line, item in items:
            where = item.partition(": ")[0]
            places = list(_places_of(where))
            if not places:
                yield Problem(DOCUMENT, line, "the step does not begin with "
                              "`a_file.cc` `AFunction`: ")
            for path, names in places:
                files.add(path)
                yield from _problems_of_place(tree, line, path, names)
        if side == SIDES[0]:
            yield from _problems_of_size(tree, files)


def places_of_side(tree, side):
    """(path, [function, ...]) of each place that the steps of `side` name."""
    for _, item in _items_of(tree.get(DOCUMENT), side):
        yield from _places_of(item.partition(": ")[0])


def _items_of(document, side):
    """(line number, text) of the numbered items under `side`."""
    place, items = None, []
    for number, line in enumerate(document.lines, start=1):
        if line.startswith("## "):
            place = line
        elif line.startswith("### ") and place in (SECTION, *SIDES):
            place = line if line in SIDES else SECTION
        elif place == side and _ITEM.match(line):
            items.append((number, line))
        elif place == side and items and line.startswith("   "):
            first, text = items.pop()
            items.append((first, text + " " + line.strip()))
    return items


def _places_of(where):
    """(path, [function, ...]) of each file that the beginning names."""
    parts = _FILE.split(where)
    for path, names in zip(parts[1::2], parts[2::2]):
        yield path, _FUNCTION.findall(names)


def _problems_of_place(tree, line, path, names):
    source = tree.get(path)
    if source is None:
        yield Problem(DOCUMENT, line, "there is no file %s" % path)
        return
    if not names:
        yield Problem(DOCUMENT, line, "no function of %s is named" % path)
    defined = {each.name for each in functions(source)}
    for name in names:
        owner, _, plain = name.rpartition("::")
        # Inside its class a function stands without the name of that.
        inside = (plain in defined and
                  re.search(r"\b(class|struct)\b[^;{]*\b%s\b" %
                            re.escape(owner.rpartition("::")[2]), source.text))
        if not any(each == name or each.endswith("::" + name)
                   for each in defined) and not inside:
            yield Problem(DOCUMENT, line, "%s does not define %s" %
                          (path, name))


def _problems_of_size(tree, files):
    lines = sum(len(tree.get(path).lines) for path in files if tree.get(path))
    if len(files) > FILES_MAX or lines > LINES_MAX:
        yield Problem(DOCUMENT, 1, "a call touches %d files and %d lines at "
                      "the client, at most %d and %d" %
                      (len(files), lines, FILES_MAX, LINES_MAX))


CHECKS = [check_call_path]
