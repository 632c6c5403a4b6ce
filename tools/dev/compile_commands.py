#!/usr/bin/env python3
"""Prints a compile_commands.json made from what Bazel would run.

usage: compile_commands.py ACTIONS EXECUTION_ROOT

ACTIONS is the output of `bazel aquery --output=jsonproto` for CppCompile. The
entries name the sources in the current folder, the root of the repository, and
what Bazel generated under EXECUTION_ROOT.
"""

import json
import os
import sys

# What clang does not know, or knows otherwise than GCC.
_NOT_FOR_CLANG = ("-Werror", "-fno-canonical-system-headers",
                  "-Wunused-but-set-parameter", "-Wno-free-nonheap-object")
_BAZELS_CLOCK = ("-D__DATE__", "-D__TIME__", "-D__TIMESTAMP__")
_BAZELS_FOLDERS = ("bazel-out/", "external/")


def entry_of(arguments, source_root, execution_root):
    """The entry for one compilation, or None if it is none of ours."""
    if "-c" not in arguments:
        return None
    source = arguments[arguments.index("-c") + 1]
    if source.startswith(_BAZELS_FOLDERS):
        return None
    kept = [os.path.join(execution_root, word)
            if word.startswith(_BAZELS_FOLDERS) else word
            for word in arguments
            if word not in _NOT_FOR_CLANG
            and not word.startswith(_BAZELS_CLOCK)]
    return {"directory": source_root, "file": source, "arguments": kept}


def main(actions_file, execution_root):
    with open(actions_file) as stream:
        actions = json.load(stream).get("actions", [])
    entries = {}
    for action in actions:
        entry = entry_of(action.get("arguments", []), os.getcwd(),
                         execution_root)
        if entry is not None:
            entries.setdefault(entry["file"], entry)
    json.dump([entries[name] for name in sorted(entries)], sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
