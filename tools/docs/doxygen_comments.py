#!/usr/bin/env python3
"""Shows Doxygen the comments of a header, which are written with //.

usage: doxygen_comments.py HEADER, as INPUT_FILTER in Doxyfile

A comment right before a declaration becomes a /// comment; one inside of a
function's body, behind code or before an empty line stays what it is. Several
declarations without an empty line between them share the comment of the first.
The comment at the top of the file becomes the file's own. No line moves.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "style"))

from source_tree import SourceFile, functions  # noqa: E402

_COMMENT = re.compile(r"^(\s*)//(?!/)( ?)(.*)$")
_TRAILING = re.compile(r"^(\s*[\w:<>\[\], ]+?(?: = [^;/]+)?[;,])  // (.*)$")
_LABEL = re.compile(r"^\s*(public|protected|private):")

# The topics of the reference; topics.dox says what they are called.
TOPICS = {
    "client": ["channel", "channel_options", "channel_state", "client_context",
               "resolver", "balancer", "load_report", "dns_resolver",
               "etcd_resolver", "etcd_options"],
    "server": ["server", "server_builder", "server_context", "server_status",
               "service", "etcd_registration"],
    "streams": ["client_stream", "server_stream", "stream"],
    "reactors": ["client_reactor", "server_reactor"],
    "coroutines": ["client_coroutine", "server_coroutine", "task",
                   "executor"],
    "beside": ["buffer", "metadata", "status_details"],
    "credentials": ["authorization", "authorization_policy_provider",
                    "certificate_provider", "credentials", "shared_secret",
                    "tls", "tls_certificates", "tls_files"],
    "interceptors": ["client_interceptor", "server_interceptor"],
    "generic": ["generic_stub", "generic_service", "byte_message"],
    "services": ["health_service", "reflection_service"],
    "process": ["logging", "metrics", "version", "admin_page",
                "admin_channels", "log_tail", "prometheus_metrics"],
}


def topic_of(path):
    stem = os.path.basename(path)[:-len(".h")]
    for topic, stems in TOPICS.items():
        if stem in stems:
            return topic
    return None


def convert(path, text):
    """The text of a header as Doxygen is to see it, on the same lines."""
    source = SourceFile(path, text)
    inside = set()
    for function in functions(source):
        inside.update(range(function.first_line + 1, function.last_line + 1))
    lines = list(source.lines)
    depth = _depths(source.code, len(lines))
    _empty_private_parts(lines, depth)
    start = None
    for i in range(len(lines) + 1):
        comment = (i < len(lines) and i + 1 not in inside
                   and _COMMENT.match(lines[i]))
        if comment:
            start = i if start is None else start
            continue
        if start is not None:
            if start == 0:
                _convert_block(lines, 0, i, "@file")
            elif i < len(lines) and _is_declaration(lines[i]):
                topic = topic_of(path) if depth[i] == 1 else None
                _convert_block(lines, start, i,
                               "@ingroup %s" % topic if topic else "")
                _share(lines, source.code, start, i, depth, inside)
        start = None
    for i, line in enumerate(lines):
        trailing = i + 1 not in inside and _TRAILING.match(line)
        if trailing and depth[i] > 1:
            lines[i] = "%s  ///< %s" % (trailing.group(1),
                                        _escape(trailing.group(2)))
    return "\n".join(lines) + "\n"


def _is_declaration(line):
    return bool(line.strip()) and not _LABEL.match(line) and not re.match(
        r"\s*(#|\}|namespace\b|class \w+;)", line)


def _empty_private_parts(lines, depth):
    """Doxygen links to a private class that it does not show."""
    for i, line in enumerate(lines):
        if line.strip() == "private:":
            last = i + 1
            while last + 1 < len(lines) and depth[last + 1] >= depth[i]:
                lines[last] = ""
                last += 1


def _depths(code, count):
    """How many braces are open before each line."""
    depths, depth = [], 0
    for i in range(count):
        depths.append(depth)
        line = code[i] if i < len(code) else ""
        depth += line.count("{") - line.count("}")
    return depths


def _convert_block(lines, start, end, command):
    """A command ends the first paragraph: no line may be added."""
    in_code = False
    for i in range(start, end):
        indent, _, text = _COMMENT.match(lines[i]).groups()
        in_code = text.startswith("  ") or (in_code and not text.strip())
        if not in_code:
            text = _escape(text)
        elif text.strip():
            text = "    " + text  # Four spaces are code in Markdown.
        lines[i] = (indent + "/// " + text).rstrip()
    if command:
        first = start
        while first + 1 < end and lines[first + 1].strip() != "///":
            first += 1
        lines[first] += " " + command


def _share(lines, code, start, end, depth, inside):
    """Has all declarations up to the next empty line share one comment."""
    last = end
    while last < len(lines) and (lines[last].strip() or last + 1 in inside):
        if depth[last] == depth[end] and lines[last].lstrip().startswith("}"):
            if last + 1 >= len(depth) or depth[last + 1] < depth[end]:
                break
        last += 1
    heads = [i for i in range(end, last)
             if depth[i] == depth[end] and re.search(r"[;{]\s*$", code[i])]
    if depth[end] < 2 or len(heads) < 2:
        return
    if any(_COMMENT.match(lines[i]) or lines[i].lstrip().startswith("///")
           for i in range(end, last) if i + 1 not in inside):
        return
    indent = re.match(r"\s*", lines[start]).group(0)
    lines[start] = indent + "/** @{ */ " + lines[start].lstrip()
    lines[last - 1] += "  /** @} */"


def _escape(text):
    """What Doxygen would take for a command or a tag, outside of backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`")
                   else re.sub(r"([<>@\\#])", r"\\\1", part) for part in parts)


if __name__ == "__main__":
    with open(sys.argv[1]) as header:
        name = os.path.relpath(sys.argv[1])
        sys.stdout.write(convert(name, header.read()))
