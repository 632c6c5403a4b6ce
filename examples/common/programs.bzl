"""The programs of an example."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def programs(sources, deps, prefix = "", tags = []):
    """Declares a program for each source, PREFIX + "client" for "client.cc".

    Args:
      sources: their one source each.
      deps: what they take beside the library itself and Abseil's flags.
      prefix: what the programs' names begin with.
      tags: as for cc_binary.
    """
    for source in sources:
        cc_binary(
            name = prefix + source[:-len(".cc")],
            srcs = [source],
            tags = tags,
            deps = deps + [
                "//examples/common:serve",
                "//rpc",
                "//rpc:types",
                "@com_google_absl//:flags",
                "@com_google_absl//:flags_parse",
                "@com_google_absl//:flags_usage",
            ],
        )
