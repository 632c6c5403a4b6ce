"""Comments that a formatter has broken, and that name what is gone."""

import re

from source_tree import Problem

_COLUMNS = 80
_COMMENT_LINE = re.compile(r"^(\s*)//+ (\s*)(.*\S)\s*$")
_TRAILING = re.compile(r"^\s*\S.*?  (// .*)$")
_NAMED_FILE = re.compile(
    r"(?<![\w./-])((?:docs|examples|proto|rpc|tests|tools|transport)/"
    r"[\w/.-]*\w\.(?:bzl|cc|h|md|proto|py|sh))\b")
_GENERATED = (".pb.h", ".verbena.h")
_MOVED_VALUE = re.compile(r"^\s+(\S+;)  // ")


def check_orphans(tree):
    """No line of a comment holds only what did not fit the one before it."""
    for source in tree.cpp():
        lines = source.lines
        for i in range(1, len(lines)):
            following = lines[i + 1] if i + 1 < len(lines) else ""
            if (_is_orphan_of_a_paragraph(lines[i - 1], lines[i], following)
                    or _is_orphan_of_a_trailing_comment(lines[i - 1],
                                                        lines[i])):
                yield Problem(source.path, i + 1,
                              "one word of a comment that did not fit the line "
                              "before: lay the comment out anew")


def check_moved_values(tree):
    """A comment behind a declaration does not push it onto a second line."""
    for source in tree.cpp():
        for i in range(1, len(source.lines)):
            before = source.lines[i - 1]
            found = _MOVED_VALUE.match(source.lines[i])
            if (found and before.endswith(" =")
                    and len(before) + 1 + len(found.group(1)) <= _COLUMNS):
                yield Problem(source.path, i, "it would fit one line: put the "
                              "comment above it")


def check_named_files(tree):
    """What documents and comments call a file of this repository is one."""
    for source in tree:
        # The samples of the style tests name files that are none.
        if source.under("tools/style") or "testdata" in source.path:
            continue
        for number, line in enumerate(source.lines, start=1):
            prose = line.partition("//")[2] if source.is_cpp() else line
            for path in _NAMED_FILE.findall(prose):
                if tree.get(path) is None and not path.endswith(_GENERATED):
                    yield Problem(source.path, number,
                                  "%s is gone: name what took its place" % path)


def _is_orphan_of_a_paragraph(before, line, following):
    """A rule's end, or one word though more of the paragraph comes."""
    here, above, below = map(_COMMENT_LINE.match, (line, before, following))
    if here and above and set(here.group(3)) == {"-"}:
        return "---" in above.group(3)
    if not (here and above and below) or len(here.group(3).split()) > 1:
        return False
    word = here.group(3)
    ends = word[-1] in ".;:!?)"  # Of a sentence or a statement.
    if ends or here.group(2) != above.group(2):
        return False
    next_word = below.group(3).split()[0]
    full_above = len(before.rstrip()) + 1 + len(word) > _COLUMNS
    more_fits = len(line.rstrip()) + 1 + len(next_word) <= _COLUMNS
    return full_above and more_fits


def _is_orphan_of_a_trailing_comment(before, line):
    """One word alone under a comment that stands behind code."""
    trailing = _TRAILING.match(before)
    here = _COMMENT_LINE.match(line)
    if not (trailing and here) or len(here.group(3).split()) > 1:
        return False
    same_column = trailing.start(1) == len(here.group(1))
    return same_column and len(here.group(1)) > 0


CHECKS = [check_orphans, check_moved_values, check_named_files]
