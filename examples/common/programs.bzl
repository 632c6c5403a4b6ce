"""The programs of an example."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def programs(sources, deps):
    """Declares a program for each source, "client" for "client.cc".

    Args:
      sources: their one source each.
      deps: what they take beside the library itself and Abseil's flags.
    """
    for source in sources:
        cc_binary(
            name = source[:-len(".cc")],
            srcs = [source],
            deps = deps + [
                "//examples/common:serve",
                "//rpc",
                "//rpc:types",
                "@com_google_absl//:flags",
                "@com_google_absl//:flags_parse",
                "@com_google_absl//:flags_usage",
            ],
        )
