"""The headers that are installed: which, and under what names.

Here they are included as "rpc/channel.h". <rpc/rpc.h> is also Sun RPC's, so
users write <verbena/channel.h>: what is in rpc/ becomes verbena/, and what only
our headers include goes to verbena/internal/. Code that is generated from
gRPC's own .proto files keeps its name, as their messages do. Names of installed
headers are rewritten to match wherever they stand in a header, in comments too.
"""

import os
import re

# Folders of headers that users include. What these include comes along.
PUBLIC_FOLDERS = ["rpc", "rpc/support", "rpc/services", "rpc/credentials"]
# Those that users include of a folder that has others too.
PUBLIC_HEADERS = ["rpc/authorization/authorization_policy_provider.h",
                  "rpc/resolvers/dns_resolver.h",
                  "rpc/resolvers/etcd_options.h",
                  "rpc/resolvers/etcd_registration.h",
                  "rpc/resolvers/etcd_resolver.h",
                  "rpc/services/admin/admin_channels.h",
                  "rpc/services/admin/admin_page.h",
                  "rpc/services/admin/log_tail.h",
                  "rpc/services/prometheus/prometheus_metrics.h"]

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_HEADER_NAME = re.compile(r"\b[\w./-]+\.h\b")
# What Bazel puts in front of the name of a header that is generated.
_GENERATED = re.compile(r"^bazel-out/.*/_(virtual_imports|verbena)/[^/]+/")


def is_public(name):
    return (os.path.dirname(name) in PUBLIC_FOLDERS
            or name in PUBLIC_HEADERS)


def installed_name(name):
    """Where a header goes below include/, from the name it has here."""
    if name.startswith("rpc/"):
        return "verbena/" + name[len("rpc/"):]
    if name.startswith("grpc/"):
        return name
    return "verbena/internal/" + name


def read_list(paths):
    """{name by which it is included: file} of what Bazel's lists name."""
    files = {}
    for path in paths:
        with open(path) as stream:
            for file in stream.read().split():
                name = _GENERATED.sub("", file)
                if not name.startswith("bazel-out/"):
                    files[name] = file
    return files


def closure(files, read):
    """{name: text} of the public headers and all of ours they include."""
    waiting = [name for name in files if is_public(name)]
    texts = {}
    while waiting:
        name = waiting.pop()
        if name in texts:
            continue
        texts[name] = read(files[name])
        waiting += [included for included in _INCLUDE.findall(texts[name])
                    if included in files]
    return texts


def rewrite(texts):
    """{path below include/: text} of what closure() found."""
    def renamed(found):
        name = found.group(0)
        return installed_name(name) if name in texts else name
    return {installed_name(name): _HEADER_NAME.sub(renamed, text)
            for name, text in texts.items()}
