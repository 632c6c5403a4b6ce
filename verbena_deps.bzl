"""verbena_deps(): what a WORKSPACE needs to build Verbena, and to build on it.

    local_repository(name = "verbena", path = "/home/me/verbena")

    load("@verbena//:verbena_deps.bzl", "verbena_deps")

    verbena_deps()

Every dependency is a Debian or Ubuntu package: the build needs no network, and
`./dev setup` in Verbena's folder installs them. A repository that the WORKSPACE
has already defined by one of these names stays what it is.
"""

load("//third_party:debian_rules_cc.bzl", "debian_rules_cc")
load("//third_party:system_library.bzl", "system_library")

_SYSTEM_LIBRARIES = {
    "asio": "asio",  # Only examples/coroutines takes it.
    "c_ares": "c_ares",  # Only rpc/resolvers takes it.
    "civetweb": "civetweb",  # Only rpc/services/admin takes it.
    "com_google_absl": "absl",
    "com_google_benchmark": "benchmark",
    "com_google_googletest": "googletest",
    "isa_l": "isa_l",
    "libsodium": "libsodium",
    "openssl": "openssl",  # Only rpc/credentials:tls and tools take it.
    "prometheus_cpp": "prometheus_cpp",  # Only rpc/services/prometheus takes it.
    "rdma_core": "rdma_core",
    # cc_test asks for it even when no coverage is collected.
    "remote_coverage_tools": "remote_coverage_tools",
}

def verbena_deps():
    """Defines every repository that Verbena's BUILD files name."""
    _maybe(debian_rules_cc, name = "rules_cc", path = "/usr/share/bazel/rules/cc")

    # Bazel resolves toolchains through these two whether or not a target needs
    # them.
    for name in ["java", "proto"]:
        _maybe(
            native.local_repository,
            name = "rules_" + name,
            path = "/usr/share/bazel/rules/" + name,
        )
    for name, file in _SYSTEM_LIBRARIES.items():
        _maybe(
            system_library,
            name = name,
            build_file = str(Label("//third_party:" + file + ".BUILD")),
        )

    # protoc, and the .proto files that come with it.
    _maybe(
        native.new_local_repository,
        name = "com_google_protobuf",
        build_file = str(Label("//third_party:protobuf.BUILD")),
        path = "/usr",
    )

def _maybe(rule, name, **kwargs):
    if name not in native.existing_rules():
        rule(name = name, **kwargs)
