"""Fuzz targets: each a test that replays its corpus, or under --config=fuzz a fuzzer."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def fuzz_targets(names, deps = [], **kwargs):
    """Declares a program for each name, of NAME.cc and the inputs in corpus/NAME.

    NAME.cc defines LLVMFuzzerTestOneInput(). Whose main function the program
    gets, that of libFuzzer or ours, is up to the mode.

    Args:
      names: the targets, without ".cc".
      deps: what they include; the same for all.
      **kwargs: passed on to each cc_test.
    """
    for name in names:
        corpus = native.glob(["corpus/%s/*" % name])
        cc_test(
            name = name,
            size = "medium",
            srcs = [name + ".cc"],
            args = select({
                ":fuzzing": [],
                "//conditions:default": ["$(rootpath %s)" % each for each in corpus],
            }),
            data = corpus,
            linkopts = select({
                ":fuzzing": ["-fsanitize=fuzzer"],
                "//conditions:default": [],
            }),
            deps = deps + [":fuzzing_aids"] + select({
                ":fuzzing": [],
                "//conditions:default": [":replay"],
            }),
            **kwargs
        )
