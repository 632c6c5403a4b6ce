"""installed_library: what a program outside of this repository links.

Bazel links a program from many small archives. This makes of those that are
ours one archive and one shared object, whose symbols are hidden but for those
that its version script names.
"""

load("@rules_cc//cc:defs.bzl", "CcInfo")

InstalledLibraryInfo = provider(
    doc = "What a library holds, for those that stand on it.",
    fields = {
        "archives": "A depset of Bazel's archives that are in it, or below.",
        "shared_objects": "A depset of its shared object and those below.",
    },
)

def _linker_inputs(deps):
    return depset(
        transitive = [dep[CcInfo].linking_context.linker_inputs for dep in deps],
        order = "topological",
    ).to_list()

def _installed_library_impl(ctx):
    below = [need[InstalledLibraryInfo] for need in ctx.attr.needs]
    taken = {
        archive.path: None
        for archive in depset(
            transitive = [each.archives for each in below],
        ).to_list()
    }
    archives = []
    flags = []
    for linker_input in _linker_inputs(ctx.attr.deps):
        flags += linker_input.user_link_flags
        for library in linker_input.libraries:
            archive = library.static_library or library.pic_static_library
            if archive and archive.path not in taken:
                taken[archive.path] = None
                archives.append(archive)

    name = "lib" + ctx.label.name
    archive = ctx.actions.declare_file(name + ".a")
    shared = ctx.actions.declare_file(name + ".so")
    used = ctx.actions.declare_file(name + ".flags")
    headers = ctx.actions.declare_file(name + ".headers")
    shared_below = depset(transitive = [each.shared_objects for each in below])

    # Each flag once, where it is last: behind all that need it.
    last = [flag for i, flag in enumerate(flags) if flag not in flags[i + 1:]]
    ctx.actions.write(used, "".join([flag + "\n" for flag in last]))
    ctx.actions.run(
        executable = ctx.executable._link,
        arguments = [
            name,
            ctx.file.version_header.path,
            ctx.file.exports.path,
            archive.path,
            shared.path,
            used.path,
        ] + [each.path for each in shared_below.to_list()] + ["--"] +
        [each.path for each in archives],
        inputs = depset(
            archives + [ctx.file.exports, ctx.file.version_header, used],
            transitive = [shared_below],
        ),
        outputs = [archive, shared],
        mnemonic = "InstalledLibrary",
        progress_message = "Linking %s.so" % name,
        use_default_shell_env = True,
    )

    around = depset(transitive = [
        dep[CcInfo].compilation_context.headers
        for dep in ctx.attr.deps
    ])
    ours = [each for each in around.to_list() if each.owner.workspace_root == ""]
    ctx.actions.write(headers, "".join([each.path + "\n" for each in ours]))
    return [
        DefaultInfo(files = depset([archive, shared, used, headers] + ours)),
        InstalledLibraryInfo(
            archives = depset(
                archives,
                transitive = [each.archives for each in below],
            ),
            shared_objects = depset([shared], transitive = [shared_below]),
        ),
    ]

installed_library = rule(
    implementation = _installed_library_impl,
    doc = "lib<name>.a and lib<name>.so of all of ours that `deps` stand on.",
    attrs = {
        "deps": attr.label_list(mandatory = True, providers = [CcInfo]),
        "exports": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "A version script; @INTERFACE@ in it becomes the version.",
        ),
        "needs": attr.label_list(
            providers = [InstalledLibraryInfo],
            doc = "Libraries whose archives are not in this one too.",
        ),
        "version_header": attr.label(mandatory = True, allow_single_file = True),
        "_link": attr.label(
            default = "//tools/install:link_library.sh",
            allow_single_file = True,
            cfg = "exec",
            executable = True,
        ),
    },
)
