"""Runs clang-tidy over what a cc_ rule compiles: `./dev lint`.

An aspect, so that Bazel runs it in parallel, shows its progress, and repeats it
only for files of which something has changed.
"""

load("@rules_cc//cc:defs.bzl", "CcInfo")

# Clang's own warnings are GCC's to give, but for those that GCC does not have.
_OPTIONS = [
    "-std=c++20",
    "-Werror=thread-safety",
]

def _clang_tidy_impl(target, ctx):
    # Generated code and that of others is not ours to mend.
    if ctx.label.workspace_root or CcInfo not in target:
        return []
    compilation = target[CcInfo].compilation_context
    options = _OPTIONS + getattr(ctx.rule.attr, "copts", [])
    for define in compilation.defines.to_list():
        options.append("-D" + define)
    for folder in compilation.quote_includes.to_list():
        options += ["-iquote", folder]
    for folder in compilation.includes.to_list():
        options += ["-I", folder]
    for folder in compilation.system_includes.to_list():
        options += ["-isystem", folder]

    reports = []
    for label in getattr(ctx.rule.attr, "srcs", []):
        for source in label.files.to_list():
            if source.extension != "cc" or not source.is_source:
                continue
            report = ctx.actions.declare_file(
                "%s.%s.lint" % (ctx.rule.attr.name, source.basename),
            )
            ctx.actions.run(
                executable = ctx.executable._run,
                arguments = [
                    report.path,
                    ctx.file._config.path,
                    ctx.file._plugin.path,
                    source.path,
                ] + options,
                inputs = depset(
                    [source, ctx.file._config, ctx.file._plugin],
                    transitive = [compilation.headers],
                ),
                outputs = [report],
                mnemonic = "ClangTidy",
                progress_message = "Linting " + source.path,
                use_default_shell_env = True,
            )
            reports.append(report)
    return [OutputGroupInfo(lint = depset(reports))]

clang_tidy = aspect(
    implementation = _clang_tidy_impl,
    attrs = {
        "_config": attr.label(
            default = "//:.clang-tidy",
            allow_single_file = True,
        ),
        "_plugin": attr.label(
            default = "//tools/build:own_scope.so",
            allow_single_file = True,
        ),
        "_run": attr.label(
            default = "//tools/build:run_clang_tidy.sh",
            executable = True,
            cfg = "host",
            allow_single_file = True,
        ),
    },
)
