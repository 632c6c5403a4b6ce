"""Debian's rules_cc, made to load in Debian's Bazel."""

# Files of rules_cc that load use_cpp_toolchain(), which Bazel has from version 5 on.
_NEEDS_NEWER_BAZEL = [
    "cc/private/rules_impl/cc_flags_supplier.bzl",
    "cc/private/rules_impl/compiler_flag.bzl",
]

def _debian_rules_cc_impl(repository_ctx):
    result = repository_ctx.execute(["cp", "-r", repository_ctx.attr.path + "/.", "."])
    if result.return_code != 0:
        fail("Can't copy %s: %s. Install the package bazel-rules-cc." %
             (repository_ctx.attr.path, result.stderr))
    for name in _NEEDS_NEWER_BAZEL:
        text = repository_ctx.read(name)
        text = text.replace(", \"use_cpp_toolchain\"", "").replace("\"use_cpp_toolchain\", ", "")
        text = text.replace("use_cpp_toolchain()", "[\"@bazel_tools//tools/cpp:toolchain_type\"]")
        repository_ctx.file(name, text)

debian_rules_cc = repository_rule(
    implementation = _debian_rules_cc_impl,
    attrs = {"path": attr.string(mandatory = True)},
    doc = "Copies rules_cc and replaces what Bazel 4 does not have.",
)
