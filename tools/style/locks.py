"""Locks that Clang can check."""

import re

from source_tree import Problem

# The file that wraps the standard library's.
_WRAPPER = "transport/base/mutex.h"

_STANDARD = re.compile(
    r"\bstd::(\w*mutex|condition_variable\w*|lock_guard|unique_lock|"
    r"scoped_lock|shared_lock)\b")
_LOCK_FIELD = re.compile(
    r"^\s*(?:mutable\s+)?(?:\w+::)*(?:Mutex|SpinLock|BiasedLock)\s+(\w+_)\s*"
    r"[;{]")


def check_standard_locks(tree):
    """No lock of the standard library, whose use Clang cannot check."""
    for source in tree.cpp():
        # Examples are what users write, who have no other.
        if source.path == _WRAPPER or source.path.startswith("examples/"):
            continue
        for number, line in enumerate(source.code, start=1):
            found = _STANDARD.search(line)
            if found:
                yield Problem(source.path, number, "%s: use Mutex, ScopedLock "
                              "and CondVar of %s" % (found.group(0), _WRAPPER))


def check_annotations(tree):
    """Every lock of a class says what it protects."""
    for source in tree.cpp():
        text = "\n".join(source.code)
        for number, line in enumerate(source.code, start=1):
            found = _LOCK_FIELD.match(line)
            if found and not re.search(r"\bABSL_\w+\([^)]*\b%s\b" %
                                       found.group(1), text):
                yield Problem(source.path, number, "%s protects nothing: mark "
                              "what it does with ABSL_GUARDED_BY(%s), or the "
                              "functions with ABSL_EXCLUSIVE_LOCKS_REQUIRED" %
                              (found.group(1), found.group(1)))


CHECKS = [check_standard_locks, check_annotations]
