"""Sizes and shapes of files."""

import re

from source_tree import Problem, functions
from tested_elsewhere import TESTED_ELSEWHERE

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
BUILD_LINES_MAX = 2500  # Or one for so many lines of C++, if that is more:
CPP_LINES_A_BUILD_LINE = 32
CODE_COLUMNS_MAX = 80
PROSE_COLUMNS_MAX = 130

# Source files without a test of their own beside them, and what tests them.
WITHOUT_TEST = {
    "proto/compiler/client_writer.cc": "proto/compiler/golden_test",
    "proto/compiler/in_memory_files.cc": "proto/compiler/generator_test",
    "proto/compiler/server_writer.cc": "proto/compiler/golden_test",
    "tools/rpc_bench/bench_server.cc": "tools/rpc_bench/rpc_bench_test",
}


def check_file_length(tree):
    """A file is one idea."""
    for source in tree:
        # Golden files are as long as what they show, BUILD files as their
        # folder; the licence is not ours.
        if (source.name in ("LICENSE", "BUILD.bazel")
                or "testdata" in source.path):
            continue
        if len(source.lines) > FILE_LINES_MAX:
            yield Problem(source.path, len(source.lines),
                          "%d lines, at most %d: split it by subject" %
                          (len(source.lines), FILE_LINES_MAX))


def check_function_length(tree):
    """A function seen whole can be checked whole."""
    for source in tree.cpp():
        for function in functions(source):
            if function.length() > FUNCTION_LINES_MAX:
                yield Problem(source.path, function.first_line,
                              "%s has %d lines, at most %d: name its parts" %
                              (function.name, function.length(),
                               FUNCTION_LINES_MAX))


def check_columns(tree):
    """Lines fit two windows side by side."""
    for source in tree:
        limit = _columns_max(source)
        for number, line in enumerate(source.lines, start=1):
            if limit is None or len(line) <= limit or _may_be_long(line):
                continue
            yield Problem(source.path, number, "%d columns, at most %d" %
                          (len(line), limit))


def _columns_max(source):
    if "testdata" in source.path:
        return None
    if source.path.endswith((".h", ".cc", ".py", ".sh", ".proto")):
        return CODE_COLUMNS_MAX
    return PROSE_COLUMNS_MAX if source.path.endswith(".md") else None


def _may_be_long(line):
    """What cannot be broken: an address, a guard, an include, a table row."""
    return (re.search(r"https?://", line) is not None
            or re.match(r"\s*#\s*(include|ifndef|define|endif)\b", line)
            or line.lstrip().startswith("|"))


def check_header_guards(tree):
    """A guard is the path, so no two headers share one."""
    for source in tree:
        if not source.path.endswith(".h") or "testdata" in source.path:
            continue
        guard = "VERBENA_" + re.sub(r"[^A-Za-z0-9]", "_",
                                    source.path).upper() + "_"
        code = [line for line in source.code if line.strip()]
        wanted = ["#ifndef " + guard, "#define " + guard]
        if [line.strip() for line in code[:2]] != wanted:
            yield Problem(source.path, 1,
                          "the first code must be #ifndef %s and its #define" %
                          guard)


def check_tests_beside(tree, elsewhere=None):
    """Every .cc has a test beside it, or is named with the one that runs it."""
    if elsewhere is None:
        elsewhere = TESTED_ELSEWHERE
    for source in tree:
        if not _needs_test(source):
            continue
        stem = re.sub(r"(_datapath)?\.cc$", "", source.path)
        beside = [path for path in (stem + "_test.cc",
                                    source.path[:-len(".cc")] + "_test.cc")
                  if tree.get(path)]
        test = elsewhere.get(source.path)
        if not beside and (test is None or tree.get(test) is None):
            yield Problem(source.path, 1,
                          "no %s_test.cc beside it: write one, or name the "
                          "test that runs it in %s" %
                          (stem.rpartition("/")[2], _ELSEWHERE_FILE))
        if beside and test is not None:
            yield Problem(source.path, 1, "it has a test beside it by now: "
                          "remove it from " + _ELSEWHERE_FILE)
    if tree.get(_ELSEWHERE_FILE):
        for path in sorted(set(elsewhere) - set(tree.files)):
            yield Problem(path, 1, "it is gone: remove it from " +
                          _ELSEWHERE_FILE)


_ELSEWHERE_FILE = "tools/style/tested_elsewhere.py"


def _needs_test(source):
    return (source.path.endswith(".cc") and not source.is_test()
            and not source.is_program() and "testdata" not in source.path
            and source.under("transport", "rpc", "proto", "tools"))


def check_build_files(tree):
    """BUILD files say what the folder is, and name all its files."""
    for source in tree:
        if source.name != "BUILD.bazel":
            continue
        head = source.text.partition("\ncc_")[0]
        if not re.search(r"^# \w", head, re.MULTILINE):
            yield Problem(source.path, 1, "begin with what this folder is")
        for number, line in enumerate(source.lines, start=1):
            if re.search(r"\bglob\s*\(", line.partition("#")[0]):
                yield Problem(source.path, number, "glob: name each file, so "
                              "that the graph can be read")
        yield from _unnamed_files(tree, source)


def check_build_lines(tree):
    """The BUILD files can be read: a library a folder, a line a test."""
    builds = [each for each in tree if each.name == "BUILD.bazel"]
    lines = sum(len(each.lines) for each in builds)
    most = max(BUILD_LINES_MAX, sum(len(each.lines) for each in tree.cpp())
               // CPP_LINES_A_BUILD_LINE)
    if lines > most:
        longest = max(builds, key=lambda each: len(each.lines))
        yield Problem(longest.path, 1, "the BUILD files have %d lines, at most "
                      "%d; this one has %d" %
                      (lines, most, len(longest.lines)))


def _unnamed_files(tree, build):
    for source in tree.cpp():
        if "testdata" in source.path or _build_file_of(tree, source) != build:
            continue
        name = (source.path[len(build.folder) + 1:] if build.folder
                else source.path)
        # unit_tests() takes the names of tests without their ending.
        names = [name] + ([name[:-len(".cc")]] if source.is_test() else [])
        if not any('"%s"' % each in build.text for each in names):
            yield Problem(source.path, 1, "%s does not name it, so nothing "
                          "compiles it" % build.path)


def _build_file_of(tree, source):
    folder = source.folder
    while True:
        build = tree.get((folder + "/" if folder else "") + "BUILD.bazel")
        if build is not None or not folder:
            return build
        folder = folder.rpartition("/")[0]


def check_preprocessor_in_functions(tree):
    """A platform or a mode is a file, chosen in BUILD, or a value."""
    for source in tree.cpp():
        bodies = functions(source)
        for number, line in enumerate(source.code, start=1):
            if re.match(r"\s*#\s*(if|ifdef|ifndef)\b", line) and any(
                    each.first_line < number < each.last_line
                    for each in bodies):
                yield Problem(source.path, number, "#if inside a function: "
                              "make it a file chosen in BUILD, or a value")


_VERSION_FILE = "rpc/version.h"
_CHANGES_FILE = "CHANGELOG.md"


def check_version(tree):
    """The newest version in CHANGELOG.md is the one that this is."""
    header, changes = tree.get(_VERSION_FILE), tree.get(_CHANGES_FILE)
    if header is None or changes is None:
        yield Problem(_VERSION_FILE, 1, "it must stand beside " + _CHANGES_FILE)
        return
    stated = re.search(r'kVersion = "(\d+\.\d+\.\d+)"', header.text)
    newest = re.search(r"^## \[(\d\S*)\]", changes.text, re.MULTILINE)
    if not (stated and newest and stated.group(1) == newest.group(1)):
        yield Problem(_VERSION_FILE, 1, "kVersion must be MAJOR.MINOR.PATCH, "
                      "and that of the newest [version] in " + _CHANGES_FILE)


CHECKS = [check_file_length, check_function_length, check_columns,
          check_header_guards, check_tests_beside, check_build_files,
          check_build_lines, check_version, check_preprocessor_in_functions]
