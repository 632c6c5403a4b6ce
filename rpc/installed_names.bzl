"""installed_names: the public headers by the names that they have installed.

Inside of a Bazel workspace the header of a channel is "rpc/channel.h", and
"verbena/channel.h" in an installed Verbena. A program that is built both ways
includes the latter, and depends on @verbena//:verbena.
"""

load("@rules_cc//cc:defs.bzl", "CcInfo")

def _installed_names_impl(ctx):
    headers = [
        header
        for dep in ctx.attr.deps
        for header in dep[CcInfo].compilation_context.direct_public_headers
    ]
    outputs = []
    for header in headers:
        name = header.owner.package + "/" + header.basename
        output = ctx.actions.declare_file("installed_names/verbena/" + name[len("rpc/"):])
        ctx.actions.write(output, "#include \"%s\"  // IWYU pragma: export\n" % name)
        outputs.append(output)
    return [DefaultInfo(files = depset(outputs))]

installed_names = rule(
    implementation = _installed_names_impl,
    attrs = {"deps": attr.label_list(mandatory = True, providers = [CcInfo])},
    doc = "A header in installed_names/verbena for each of `deps` themselves.",
)
