"""What checks want of a Markdown file: blocks, headings, links.

It reads the Markdown that stands in this repository: fences of three backticks,
headings with #, links in one piece.
"""

import dataclasses
import re

_FENCE = re.compile(r"^(\s*)```(\S*)\s*$")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
_CODE = re.compile(r"(`+)(.+?)\1")
_NOTE = re.compile(r"^\s*<!-- code: (.*?) -->\s*$")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block, and what a comment right before it says of its check."""
    line: int
    language: str
    text: str
    note: str


def blocks(text):
    """The fenced blocks of `text`."""
    found = []
    note, start, language, lines = "", None, "", []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if start is None and fence:
            start, language, lines = number, fence.group(2), []
            indent = len(fence.group(1))
        elif start is not None and fence and not fence.group(2):
            body = "".join(each + "\n" for each in lines)
            found.append(Block(start, language, body, note))
            start, note = None, ""
        elif start is not None:
            lines.append(line[indent:])
        elif line.strip():
            said = _NOTE.match(line)
            note = said.group(1) if said else ""
    return found


def prose(text):
    """(line number, line) outside of fenced blocks."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(text):
    """The anchors that a forge makes of the headings of `text`."""
    found = []
    for _, line in prose(text):
        heading = _HEADING.match(line)
        if heading:
            anchor = slug(heading.group(1))
            same = sum(each == anchor or re.fullmatch(
                re.escape(anchor) + r"-\d+", each) is not None
                       for each in found)
            found.append("%s-%d" % (anchor, same) if same else anchor)
    return found


def slug(heading):
    plain = _LINK.sub(lambda link: link.group(0)[1:].split("](")[0], heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def links(text):
    """(line number, target) of every link and picture."""
    for number, line in prose(text):
        # In code a link is none; a link whose text is code stays one.
        for target in _LINK.findall(_CODE.sub("code", line)):
            yield number, target
