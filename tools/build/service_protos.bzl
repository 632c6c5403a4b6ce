"""Our own services: the three rules that a .proto with a service needs."""

load("@rules_cc//cc:defs.bzl", "cc_proto_library")
load("//rpc:verbena_library.bzl", "cc_verbena_library")

def service_protos(name, deps = [], strip_import_prefix = None, **kwargs):
    """Declares NAME_proto, NAME_cc_proto and NAME_cc_verbena of NAME.proto.

    Args:
      name: the file, without ".proto".
      deps: the proto_library targets that it imports.
      strip_import_prefix: as of proto_library.
      **kwargs: passed on to each, for example visibility.
    """
    native.proto_library(
        name = name + "_proto",
        srcs = [name + ".proto"],
        deps = deps,
        strip_import_prefix = strip_import_prefix,
        **kwargs
    )
    cc_proto_library(
        name = name + "_cc_proto",
        deps = [":" + name + "_proto"],
        **kwargs
    )
    cc_verbena_library(
        name = name + "_cc_verbena",
        srcs = [":" + name + "_proto"],
        deps = [":" + name + "_cc_proto"],
        **kwargs
    )
