"""Tests that stand beside the code: one line of build each."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def unit_tests(names, deps = [], size = "small", **kwargs):
    """Declares a GoogleTest program for each name, of the one source NAME.cc.

    Args:
      names: the tests, without ".cc".
      deps: what they include, beside GoogleTest; the same for all.
      size: as for cc_test.
      **kwargs: passed on to each cc_test.
    """
    for name in names:
        cc_test(
            name = name,
            size = size,
            srcs = [name + ".cc"],
            deps = deps + ["@com_google_googletest//:gtest_main"],
            **kwargs
        )
