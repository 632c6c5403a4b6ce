"""What tells the build of a program how to use the libraries."""

import os

HERE = os.path.dirname(os.path.abspath(__file__))

# The modules whose functions the inline code of our headers, and generated
# code, call: whoever includes these links them himself.
PUBLIC_ABSL = ["any_invocable", "base", "cord", "core_headers", "span",
               "status", "statusor", "strings", "time"]

LIBRARIES = {
    "verbena": "RPC over RDMA, and over a software device",
    "verbena_services": "Health and reflection services of Verbena",
    "verbena_shared_secret": "Credentials of Verbena by a shared secret",
    "verbena_tls": "Credentials of Verbena by certificates",
    "verbena_authorization": "Who may call which method of Verbena",
    "verbena_dns": "Servers of Verbena by DNS",
    "verbena_etcd": "Servers of Verbena in etcd",
    "verbena_admin": "A status page of Verbena's servers",
    "verbena_prometheus": "Metrics of Verbena for Prometheus",
}
# Those that are installed only if they are asked for.
ON_REQUEST = ["verbena_etcd"]
# What whoever includes the headers of a library links beside verbena.
_PUBLIC_MODULES = {"verbena_prometheus": ["prometheus-cpp-core"]}

# The pkg-config modules of system libraries that an archive stands on.
_MODULES = {"-libverbs": "libibverbs", "-lrdmacm": "librdmacm",
            "-lisal": "libisal", "-lsodium": "libsodium",
            "-lssl": "libssl", "-lcrypto": "libcrypto",
            "-lcares": "libcares",
            "-lprotobuf": "protobuf",
            "-lprometheus-cpp-core": "prometheus-cpp-core"}


def interface_version(version):
    """The part of a version that stays while programs need not be rebuilt."""
    parts = version.split(".")
    return ".".join(parts[:2] if parts[0] == "0" else parts[:1])


def fill(template, values):
    """The template of that name with @NAME@ replaced."""
    with open(os.path.join(HERE, template)) as stream:
        text = stream.read()
    for name, value in values.items():
        text = text.replace("@%s@" % name, value)
    return text


def pkg_config(name, version, flags):
    """NAME.pc. `flags` is what the archive is linked with, in order."""
    modules, others = [], []
    for flag in flags:
        if flag.startswith("-labsl_"):
            modules.append(flag[len("-l"):])
        elif flag in _MODULES:
            modules.append(_MODULES[flag])
        else:
            others.append(flag)
    public = ["absl_" + module for module in PUBLIC_ABSL] + ["protobuf"]
    if name != "verbena":
        public = ["verbena = " + version] + _PUBLIC_MODULES.get(name, [])
    return fill("templates/verbena.pc.in", {
        "NAME": name,
        "DESCRIPTION": LIBRARIES[name],
        "VERSION": version,
        "REQUIRES": ", ".join(public),
        "REQUIRES_PRIVATE": ", ".join(modules),
        "LIBS_PRIVATE": " ".join(others),
    })


def cmake(version, flags_by_library):
    """{file name: text} of the CMake package."""
    values = {
        "VERSION": version,
        "MAJOR": version.split(".")[0],
        "INTERFACE_PATTERN": interface_version(version).replace(".", "[.]"),
        "ABSL_TARGETS": " ".join("absl::" + each for each in PUBLIC_ABSL),
    }
    values.update(("FLAGS_" + name.upper(), "") for name in LIBRARIES)
    for name, flags in flags_by_library.items():
        values["FLAGS_" + name.upper()] = " ".join(flags)
    texts = {name: fill("templates/%s.in" % name, values)
             for name in ("VerbenaConfig.cmake", "VerbenaConfigVersion.cmake")}
    texts["VerbenaGenerate.cmake"] = fill("templates/VerbenaGenerate.cmake", {})
    return texts
