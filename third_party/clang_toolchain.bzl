"""Clang as a toolchain beside the host's own, for what only Clang has."""

load("@bazel_tools//tools/cpp:unix_cc_configure.bzl", "configure_unix_toolchain")
load("@bazel_tools//tools/cpp:lib_cc_configure.bzl", "get_cpu_value")

def _clang_toolchain_impl(repository_ctx):
    clang = repository_ctx.which("clang")
    if clang == None:
        fail("There is no clang. Install the package of that name.")
    configure_unix_toolchain(repository_ctx, get_cpu_value(repository_ctx), {"gcc": str(clang)})

# Bazel finds the host's compiler by the environment variable CC. Another value of
# that would configure everything anew, each time that one goes from one mode to
# the other.
clang_toolchain = repository_rule(
    implementation = _clang_toolchain_impl,
    configure = True,
    local = True,
    doc = "What Bazel writes of the host's compiler, for Clang.",
)
