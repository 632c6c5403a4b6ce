"""cc_verbena_library: from the services of .proto files to a C++ library.

    load("@rules_cc//cc:defs.bzl", "cc_proto_library")
    load("//rpc:verbena_library.bzl", "cc_verbena_library")

    proto_library(
        name = "greeter_proto",
        srcs = ["greeter.proto"],
    )

    cc_proto_library(
        name = "greeter_cc_proto",
        deps = [":greeter_proto"],
    )

    cc_verbena_library(
        name = "greeter_cc_verbena",
        srcs = [":greeter_proto"],
        deps = [":greeter_cc_proto"],
    )

A target that depends on :greeter_cc_verbena includes "<package>/greeter.verbena.h".
"""

load("@rules_cc//cc:defs.bzl", "cc_library")

# What the generated code includes.
_RUNTIME = [
    Label("//rpc"),
    Label("//rpc:types"),
    Label("//rpc/support"),
    Label("//rpc/support:methods"),
    Label("@com_google_absl//:status"),
]

def _import_path(source, proto_source_root):
    """Returns the path by which other .proto files import `source`."""
    path = source.path
    for root in [proto_source_root, source.root.path]:
        if root not in ("", ".") and path.startswith(root + "/"):
            return path[len(root) + 1:]
    if path.startswith("external/"):
        return "/".join(path.split("/")[2:])
    return path

def _strip_proto(path):
    for suffix in [".protodevel", ".proto"]:
        if path.endswith(suffix):
            return path[:-len(suffix)]
    fail("%s is not a .proto file" % path)

def _verbena_codegen_impl(ctx):
    headers = []
    sources = []
    for target in ctx.attr.srcs:
        proto = target[ProtoInfo]
        names = [
            _import_path(source, proto.proto_source_root)
            for source in proto.direct_sources
        ]
        if not names:
            continue
        outputs = []
        for name in names:
            stem = ctx.attr.directory + "/" + _strip_proto(name)
            header = ctx.actions.declare_file(stem + ".verbena.h")
            source = ctx.actions.declare_file(stem + ".verbena.cc")
            headers.append(header)
            sources.append(source)
            outputs.extend([header, source])
        out = "/".join([
            part
            for part in [
                ctx.bin_dir.path,
                ctx.label.workspace_root,
                ctx.label.package,
                ctx.attr.directory,
            ]
            if part
        ])

        arguments = ctx.actions.args()
        arguments.add(ctx.executable._plugin, format = "--plugin=protoc-gen-verbena=%s")
        arguments.add(out, format = "--verbena_out=%s")
        arguments.add("--verbena_opt=include_prefix=rpc")
        roots = [root for root in proto.transitive_proto_path.to_list() if root != "."]
        arguments.add_all(roots, format_each = "-I%s")
        arguments.add_all([ctx.bin_dir.path, "."], format_each = "-I%s")
        arguments.add_all(names)
        ctx.actions.run(
            executable = ctx.file._protoc,
            arguments = [arguments],
            inputs = proto.transitive_sources,
            outputs = outputs,
            tools = [ctx.executable._plugin],
            mnemonic = "VerbenaCodegen",
            progress_message = "Generating Verbena services of %s" % target.label,
        )
    return [
        DefaultInfo(files = depset(headers + sources)),
        OutputGroupInfo(headers = depset(headers), sources = depset(sources)),
    ]

_verbena_codegen = rule(
    implementation = _verbena_codegen_impl,
    doc = "Runs protoc-gen-verbena over the sources of proto_library targets.",
    attrs = {
        "directory": attr.string(
            mandatory = True,
            doc = "Where the files go, below the package: the root of their include paths.",
        ),
        "srcs": attr.label_list(mandatory = True, providers = [ProtoInfo]),
        "_plugin": attr.label(
            default = Label("//proto/compiler:protoc-gen-verbena"),
            cfg = "exec",
            executable = True,
        ),
        "_protoc": attr.label(
            default = Label("@com_google_protobuf//:protoc"),
            allow_single_file = True,
            cfg = "exec",
        ),
    },
)

def cc_verbena_library(name, srcs, deps, **kwargs):
    """A cc_library with the stubs and service base classes of some .proto files.

    Args:
      name: of the library.
      srcs: proto_library targets; code is generated for their own sources, not
          for those that they depend on.
      deps: cc_proto_library targets of the same protos.
      **kwargs: what else cc_library takes, e.g. visibility, testonly.
    """
    common = {
        key: kwargs[key]
        for key in ["compatible_with", "features", "tags", "testonly"]
        if key in kwargs
    }
    codegen = name + "_codegen"
    directory = "_verbena/" + name
    _verbena_codegen(
        name = codegen,
        srcs = srcs,
        directory = directory,
        visibility = ["//visibility:private"],
        **common
    )
    for group in ["headers", "sources"]:
        native.filegroup(
            name = codegen + "_" + group,
            srcs = [":" + codegen],
            output_group = group,
            visibility = ["//visibility:private"],
            **common
        )
    cc_library(
        name = name,
        srcs = [":" + codegen + "_sources"],
        hdrs = [":" + codegen + "_headers"],
        includes = [directory],
        deps = deps + _RUNTIME,
        **kwargs
    )
