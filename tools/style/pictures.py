"""Holds the pictures of the documents for engineers against the tree.

A picture is a block of text in ARCHITECTURE.md or below docs/internals:

    ```text
    | transport/soft/{cm,verbs}   SendQueue::Flush   BlockingUnaryCall() |
    ```

Some of its words name things, and these must exist:

    a/b/, a/b.cc, b.cc    a folder or a file; a/{b,c}/ stands for two of them
    A::B                  a member of a class
    Bc                    a type: a capital with a small letter behind it
    Bc()                  a function

All other words are small, or have capitals only (REQUEST, RDMA). In the text
around the pictures, the members in backquotes (`A::B`) must exist.
"""

import re

from layers import LAYERS
from source_tree import Problem

ARCHITECTURE = "ARCHITECTURE.md"
INTERNALS = "docs/internals/"
LINES_MAX = 130  # Of ARCHITECTURE.md: two pages.
PICTURES = 3  # In ARCHITECTURE.md.

_UNITS = ("KiB", "MiB", "GiB")
_FENCE = re.compile(r"^```(\w*)$")
_WORD = re.compile(r"[A-Za-z_~][\w~./:]*(?:\{[\w,.]+\}[\w./]*)?(?:\(\))?")
_MEMBER = re.compile(r"`((?:\w+::)*[A-Z]\w+::~?[A-Z]\w+)(?:\(\))?`")
_TYPE = re.compile(r"\b(?:class|struct|union|enum)\b([^;{}()]*)\{")
_TYPE_NAME = re.compile(r"(\w+)\s*(?:final\s*)?(?::(?!:)[^{]*)?$", re.DOTALL)


def pictures(source):
    """[[(line number, line)]] of the pictures in a document."""
    found, language = [], None
    for number, line in enumerate(source.lines, start=1):
        fence = _FENCE.match(line)
        if not fence:
            if language == "text":
                found[-1].append((number, line))
        elif language is None:
            language = fence.group(1)
            if language == "text":
                found.append([])
        else:
            language = None
    return found


def words(picture):
    """(line number, word) in the order of reading; braces are expanded."""
    for number, line in picture:
        for word in _WORD.findall(line):
            before, brace, rest = word.rstrip(".,:").partition("{")
            if not brace:
                yield number, before
                continue
            inside, _, after = rest.partition("}")
            for each in inside.split(","):
                yield number, before + each + after


class _Names:
    """The types and functions of the tree."""

    def __init__(self, tree):
        self._types = {}  # By name: the code of the files that define it.
        self._all = []
        for source in tree.cpp():
            code = "\n".join(source.code)
            self._all.append(code)
            for head in _TYPE.findall(code):
                name = _TYPE_NAME.search(head.strip())
                if name:
                    self._types.setdefault(name.group(1), []).append(code)

    def has_type(self, name):
        return name in self._types

    def has_function(self, name):
        return self._called(name, self._all)

    def has_member(self, owner, name):
        return owner in self._types and (
            self._called(name, self._types[owner]) or
            self._called(owner + "::" + name, self._all))

    @staticmethod
    def _called(name, texts):
        pattern = re.compile(r"(?<!\w)%s\s*\(" % re.escape(name))
        return any(pattern.search(text) for text in texts)


def check_pictures(tree):
    """Each file, folder, type and function in a picture exists, and each
    member in the text."""
    names = _Names(tree)
    paths = [source.path for source in tree]
    for document in _documents(tree):
        for picture in pictures(document):
            for line, word in words(picture):
                missing = _missing(word, names, paths)
                if missing:
                    yield Problem(document.path, line, "the picture names %s, "
                                  "but there is no such %s" % (word, missing))
        for line, text in enumerate(document.lines, start=1):
            for member in _MEMBER.findall(text):
                if _missing(member, names, paths):
                    yield Problem(document.path, line, "the text names %s, but "
                                  "there is no such member" % member)


def _documents(tree):
    return [source for source in tree if source.path == ARCHITECTURE or
            (source.under(INTERNALS.rstrip("/"))
             and source.path.endswith(".md"))]


def _missing(word, names, paths):
    """What kind of thing `word` names in vain; None if it names none."""
    if word.endswith("()"):
        return None if names.has_function(word[:-2]) else "function"
    if "::" in word:
        owner, _, name = word.rpartition("::")
        known = names.has_member(owner.rpartition("::")[2], name)
        return None if known else "member"
    if "/" in word:
        known = any(path == word or path.startswith(word.rstrip("/") + "/")
                    for path in paths)
        return None if known else "path"
    if word.endswith((".h", ".cc")):
        known = any(("/" + path).endswith("/" + word) for path in paths)
        return None if known else "file"
    if (word not in _UNITS and word[0].isupper()
            and re.search(r"[a-z]", word)):
        return None if names.has_type(word) else "type"
    return None


def check_layers_picture(tree):
    """The first picture has the folders of layers.py, in an order of theirs."""
    document = tree.get(ARCHITECTURE)
    drawn = pictures(document) if document else []
    if not drawn:
        yield Problem(ARCHITECTURE, 1, "there is no picture of the layers")
        return
    order, lines = [], {}
    for line, word in words(drawn[0]):
        folder = word.rstrip("/")
        if "/" not in word:
            continue
        if folder in lines or folder not in LAYERS:
            yield Problem(ARCHITECTURE, line, "%s is %s" % (
                folder, "drawn twice" if folder in lines
                else "not in tools/style/layers.py"))
            continue
        lines[folder] = line
        order.append(folder)
    for folder in LAYERS:
        if folder not in lines:
            yield Problem(ARCHITECTURE, drawn[0][0][0],
                          "the picture of the layers lacks %s/" % folder)
    for folder in order:
        for other in LAYERS[folder]:
            if (other in lines and folder not in LAYERS[other]
                    and order.index(other) < order.index(folder)):
                yield Problem(ARCHITECTURE, lines[folder], "%s/ may include "
                              "%s/, so it comes before it" % (folder, other))


def check_pages_have_pictures(tree):
    """Two pages with three pictures; behind them each page begins with one."""
    for document in _documents(tree):
        drawn = pictures(document)
        if document.path == ARCHITECTURE:
            if len(drawn) != PICTURES or len(document.lines) > LINES_MAX:
                yield Problem(ARCHITECTURE, 1, "%d pictures in %d lines: %d "
                              "pictures and at most %d lines are wanted" %
                              (len(drawn), len(document.lines), PICTURES,
                               LINES_MAX))
            continue
        heading = next((number for number, line
                        in enumerate(document.lines, start=1)
                        if line.startswith("## ")), len(document.lines) + 1)
        if not drawn or drawn[0][0][0] > heading:
            yield Problem(document.path, 1, "begin with a picture, a block of "
                          "text before the first ##")


def check_pages_are_linked(tree):
    """A reader of ARCHITECTURE.md finds each page behind it."""
    entrance = tree.get(ARCHITECTURE)
    for document in _documents(tree):
        if document is not entrance and (
                entrance is None or "](%s" % document.path
                not in entrance.text):
            yield Problem(document.path, 1, "%s does not link to it" %
                          ARCHITECTURE)


CHECKS = [check_pictures, check_layers_picture, check_pages_have_pictures,
          check_pages_are_linked]
