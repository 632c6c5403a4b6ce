"""Who may include whom."""

import os
import re

from source_tree import Problem

# The folders of transport/soft, lowest first: those that RPC links, and those
# that only programs link which use verbs themselves.
_SOFT_OF_RPC = ["base", "address", "memory", "link", "iwarp", "remote",
                "device", "queues", "connected", "verbs", "cm"]
SOFT_ROOMS = _SOFT_OF_RPC + ["manual", "datagram", "extended", "services",
                             "full"]

# Neither kind of queue pair knows of the other.
_SOFT_NEIGHBOURS = [("datagram", "connected"), ("datagram", "manual")]


def _soft_rooms(rooms):
    return ["transport/base", "transport/verbs"] + [
        "transport/soft/" + room for room in rooms]


def _soft_below(room):
    """What a room may include."""
    return _soft_rooms(
        other for other in SOFT_ROOMS[:SOFT_ROOMS.index(room)]
        if (room, other) not in _SOFT_NEIGHBOURS)


_BELOW_DEVICE = ["transport/base", "transport/verbs", "transport/memory",
                 "transport/polling"]
_BELOW_SIDES = _BELOW_DEVICE + ["transport/wire", "transport/device",
                                "transport/session", "transport/streams"]

# Lowest first. What a folder may include of ours: itself, and what it lists.
# The longest matching folder counts; "transport" and "rpc" alone are their
# public faces.
LAYERS = {
    "proto": [],
    "transport/base": [],
    # Low, because tests of credentials make certificates by it.
    "tools/certificates": ["transport/base"],
    "transport/verbs": ["transport/base"],
    # The rooms of the software device, in order. A room may include all that
    # stand before it.
    **{"transport/soft/" + room: _soft_below(room) for room in SOFT_ROOMS},
    "transport/soft": _soft_rooms(_SOFT_OF_RPC),
    "transport/soft/preload": _soft_rooms(SOFT_ROOMS) + ["transport/soft"],
    "transport/faulty": ["transport/base", "transport/verbs"],
    "transport/memory": ["transport/base", "transport/verbs"],
    "transport/wire": ["transport/base"],
    "transport/polling": ["transport/base", "transport/verbs"],
    "transport/device": _BELOW_DEVICE,
    "transport/session": _BELOW_DEVICE + ["transport/wire",
                                          "transport/device"],
    "transport/streams": _BELOW_DEVICE + ["transport/wire",
                                          "transport/session"],
    "transport/client": _BELOW_SIDES,
    "transport/server": _BELOW_SIDES,
    "transport": _BELOW_SIDES + ["transport/soft", "transport/client",
                                 "transport/server"],
    "rpc/internal/call": ["transport/base", "rpc"],
    "rpc": ["proto", "transport/base", "transport", "rpc/internal/call",
            "rpc/support"],
    "rpc/support": ["proto", "transport/base", "transport", "rpc",
                    "rpc/internal/call"],
    "rpc/credentials": ["transport/base", "rpc"],
    "rpc/internal/service": ["proto", "transport/base", "rpc"],
    "rpc/resolvers": ["transport/base", "rpc", "rpc/internal/service"],
    "rpc/authorization": ["transport/base", "rpc", "rpc/internal/service"],
    "rpc/services": ["proto", "transport/base", "rpc", "rpc/support"],
    "rpc/internal/codec": ["proto", "transport/base", "rpc"],
    "rpc/internal/metrics": ["transport/base", "transport/polling",
                             "transport/session", "rpc"],
    "rpc/internal/stream": ["transport/base", "transport/streams", "rpc",
                            "rpc/support", "rpc/internal/codec",
                            "rpc/internal/metrics"],
    "rpc/internal/client": ["proto", "transport/base", "transport/verbs",
                            "transport/memory", "transport/polling",
                            "transport/streams", "transport/client",
                            "transport", "rpc", "rpc/support",
                            "rpc/internal/call", "rpc/internal/codec",
                            "rpc/internal/metrics", "rpc/internal/service",
                            "rpc/internal/stream"],
    "rpc/internal/server": ["proto", "transport/base", "transport/polling",
                            "transport/session", "transport/streams",
                            "transport/server", "transport", "rpc",
                            "rpc/support", "rpc/internal/call",
                            "rpc/internal/codec", "rpc/internal/metrics",
                            "rpc/internal/stream"],
    "examples": ["rpc", "rpc/credentials", "rpc/resolvers"],
    # What the documents show; see tools/docs.
    "docs/code": ["rpc", "rpc/authorization", "rpc/credentials",
                  "rpc/resolvers", "rpc/services", "transport/faulty",
                  "transport/soft"],
    "docs/code/greeter": ["rpc"],
    "tools/command_line": ["rpc", "rpc/credentials"],
    "tools/child": ["transport/base"],
    "tools/json": ["transport/base"],
    "tools/load": ["transport/base"],
    # It measures the transport by itself, and the verbs below it.
    "tools/rpc_bench": ["tools/certificates", "tools/child",
                        "tools/command_line", "tools/json",
                        "tools/load", "proto", "transport/base",
                        "transport/verbs", "transport/memory",
                        "transport/polling", "transport/client",
                        "transport/server",
                        "transport", "rpc", "rpc/credentials"],
    "tools/peer_bench": ["tools/child", "tools/command_line", "tools/json",
                         "tools/load", "transport/base", "rpc"],
    "tools/gateway": ["tools/command_line", "transport/base", "rpc",
                      "rpc/services"],
    "tools/verbena": ["tools/certificates", "tools/command_line",
                      "transport/base", "rpc", "rpc/credentials",
                      "rpc/resolvers", "rpc/support"],
    # It looks at devices by their verbs, and calls over them.
    "tools/rdma_doctor": ["tools/certificates", "tools/command_line",
                          "tools/json",
                          "tools/rpc_bench", "transport/base",
                          "transport/verbs", "transport", "rpc",
                          "rpc/services"],
    "tools": ["proto", "transport/base", "transport/verbs", "transport",
              "rpc"],
    "tests": ["examples", "tools", "proto", "rpc", "rpc/support",
              "rpc/internal/call", "rpc/internal/codec", "rpc/internal/client",
              "rpc/internal/server", "rpc/internal/service",
              "transport", "transport/base",
              "transport/verbs", "transport/soft", "transport/soft/full",
              "transport/faulty", "transport/memory", "transport/wire",
              "transport/polling", "transport/device", "transport/session",
              "transport/streams",
              "transport/client", "transport/server", "rpc/authorization",
              "rpc/credentials",
              "rpc/resolvers", "rpc/services"],
}

# What the .cc files of a folder may include besides: those of the face join the
# users' view to what is behind it.
EXTRA_IN_CC = {
    "rpc": ["rpc/internal/codec", "rpc/internal/client",
            "rpc/internal/server"],
    "rpc/support": ["rpc/internal/codec", "rpc/internal/client"],
}

_VERBS_HEADERS = ("infiniband/", "rdma/")


def layer_of(path):
    """The entry of LAYERS that a path belongs to, or None."""
    folder = os.path.dirname(path)
    while folder:
        if folder in LAYERS:
            return folder
        folder = os.path.dirname(folder)
    return None


def check_layers(tree):
    """A folder includes only what stands below it."""
    for source in tree.cpp():
        own = layer_of(source.path)
        if own is None:
            continue
        allowed = [own] + LAYERS[own]
        if source.path.endswith(".cc"):
            allowed = allowed + EXTRA_IN_CC.get(own, [])
        if source.is_test():
            # A test may reach down further than what it tests, and compile
            # what the plugin generates.
            allowed = list(LAYERS) if own == "proto" else allowed + _below(own)
            allowed = allowed + ["tests"]
            if source.under("transport/soft"):
                # It tests its room in the whole device.
                allowed += [layer for layer in LAYERS
                            if layer.startswith("transport/soft")]
        for line, quote, included in source.includes():
            layer = layer_of(included)
            if quote == '"' and layer is not None and layer not in allowed:
                yield Problem(
                    source.path, line,
                    "%s may not include %s; it may include only: %s" %
                    (own, layer, ", ".join(sorted(set(allowed)))))


def _below(layer):
    order = list(LAYERS)
    return order[:order.index(layer)]


def check_soft_is_chosen_in_one_place(tree):
    """Nothing above transport/verbs can tell the providers apart."""
    for source in tree.cpp():
        if (source.is_test() or source.under("transport/soft")
                or source.path == "transport/device.cc"):
            continue
        for line, _, included in source.includes():
            if included.startswith("transport/soft/"):
                yield Problem(source.path, line,
                              "only transport/device.cc includes "
                              "transport/soft: take a Provider instead")


def check_verbs_headers(tree):
    """Verbs types end at the transport's face."""
    for source in tree.cpp():
        if source.is_test() or source.under("transport"):
            continue
        for line, _, included in source.includes():
            if included.startswith(_VERBS_HEADERS):
                yield Problem(source.path, line,
                              "<%s> belongs to transport/: use the owners of "
                              "transport/verbs or the face in transport/*.h" %
                              included)


def check_internal_headers(tree):
    """What is below rpc/internal may change without asking users."""
    for source in tree.cpp():
        if source.is_test() or source.under("rpc"):
            continue
        for line, _, included in source.includes():
            if included.startswith("rpc/internal/"):
                yield Problem(source.path, line,
                              "rpc/internal is for rpc/ only: use the public "
                              "headers in rpc/")


def check_tests_are_leaves(tree):
    """Nothing that ships depends on tests/."""
    for source in tree.cpp():
        if source.is_test():
            continue
        for line, _, included in source.includes():
            if included.startswith("tests/"):
                yield Problem(source.path, line,
                              "nothing but a test includes tests/")


def closure(tree, roots):
    """Paths of our headers that `roots` include, directly or not."""
    seen = []
    waiting = list(roots)
    while waiting:
        path = waiting.pop()
        source = tree.get(path)
        if source is None or path in seen:
            continue
        seen.append(path)
        waiting += [included for _, quote, included in source.includes()
                    if quote == '"']
    return sorted(seen)


PUBLIC_ROOTS = ["rpc/rpc.h"]
USERS_FOLDERS = ["rpc", "rpc/credentials", "rpc/services"]
PUBLIC_HEADERS_MAX = 16
PUBLIC_LINES_MAX = 2500


def check_public_closure(tree):
    """What a user includes stays small, and free of verbs."""
    roots = [root for root in PUBLIC_ROOTS if tree.get(root)]
    if not roots:
        yield Problem(PUBLIC_ROOTS[0], 1, "the public header is missing")
        return
    headers = closure(tree, roots)
    lines = sum(len(tree.get(path).lines) for path in headers)
    if len(headers) > PUBLIC_HEADERS_MAX or lines > PUBLIC_LINES_MAX:
        yield Problem(
            roots[0], 1,
            "a user who includes this reads %d headers, %d lines of ours; at "
            "most %d and %d: forward-declare, and keep implementations behind "
            "std::unique_ptr<Impl>. They are: %s" %
            (len(headers), lines, PUBLIC_HEADERS_MAX, PUBLIC_LINES_MAX,
             " ".join(headers)))
    for path in headers:
        for line, _, included in tree.get(path).includes():
            if included.startswith(_VERBS_HEADERS):
                yield Problem(path, line, "<%s> is in the public closure" %
                              included)


_FOR_OTHERS = re.compile(r"\bfor (the library|generated code)\b", re.IGNORECASE)


def check_public_headers_are_for_users(tree):
    """What only the library or generated code uses is not in users' headers."""
    for source in tree.cpp():
        if layer_of(source.path) not in USERS_FOLDERS or \
                not source.path.endswith(".h") or source.is_test():
            continue
        for line, text in enumerate(source.lines, start=1):
            if _FOR_OTHERS.search(text):
                yield Problem(source.path, line,
                              "users read this header: move it to rpc/support "
                              "or rpc/internal, or make it private")


CHECKS = [check_layers, check_soft_is_chosen_in_one_place, check_verbs_headers,
          check_internal_headers, check_tests_are_leaves, check_public_closure,
          check_public_headers_are_for_users]
