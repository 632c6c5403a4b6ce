#!/usr/bin/env python3
"""What documents show of files that others read, as files to try.

usage: document_blocks.py FOLDER

Writes into FOLDER what people copy: CMakeLists.txt and Makefile of
getting-started-cmake.md, server.service and pod.yaml of deploying.md, and
container.sh, which does in a root folder what the Dockerfile of
develop-without-hardware.md does in an image.
"""

import os
import re
import shlex
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "docs"))

import markdown_text  # noqa: E402


def only_block(page, language):
    with open(os.path.join(ROOT, "docs", page)) as stream:
        found = [block.text for block in markdown_text.blocks(stream.read())
                 if block.language == language]
    if len(found) != 1:
        raise ValueError("docs/%s has %d blocks of %s, not one" % (
            page, len(found), language))
    return found[0]


def as_script(dockerfile):
    """A shell script that takes these steps, in its own folder's context."""
    lines = ["set -eu"]
    for line in dockerfile.replace("\\\n", " ").splitlines():
        step, _, rest = line.partition(" ")
        if step == "RUN":
            lines.append("{ %s; } >&2" % rest)
        elif step == "COPY":
            lines.append("cp " + rest)
        elif step == "ENV":
            lines.append("export " + rest)
        elif step == "CMD":
            lines.append(shlex.join(re.findall(r'"([^"]*)"', rest)))
        elif step != "FROM":
            raise ValueError("a step that this does not know: " + line)
    return "".join(line + "\n" for line in lines)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name, text in {
            "CMakeLists.txt": only_block("getting-started-cmake.md", "cmake"),
            "Makefile": only_block("getting-started-cmake.md", "make"),
            "server.service": only_block("deploying.md", "ini"),
            "pod.yaml": only_block("deploying.md", "yaml"),
            "container.sh": as_script(only_block(
                "develop-without-hardware.md", "dockerfile"))}.items():
        with open(os.path.join(folder, name), "w") as stream:
            stream.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
