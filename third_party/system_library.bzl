"""A library of the system, whose headers and objects compilers find anyway."""

def _system_library_impl(repository_ctx):
    repository_ctx.symlink(repository_ctx.attr.build_file, "BUILD.bazel")

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {"build_file": attr.label(mandatory = True, allow_single_file = True)},
    doc = "A repository with nothing but a build file, which says what to link.",
)
