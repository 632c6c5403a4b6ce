"""What this host and its RDMA device are, and what the device has counted."""

import contextlib
import glob
import json
import os
import platform
import re
import signal
import socket
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
DEVICES = "/sys/class/infiniband"

_PACKAGES = ("libibverbs1", "librdmacm1", "ibverbs-providers", "perftest",
             "libgrpc++1.51", "libgrpc++1.51t64")

# Counters of lost packets, of errors and of congestion, by the names that
# drivers give them. The others count traffic.
# `ack_deferred` of rxe is none.
_ERRORS = re.compile(r"(?<!f)err|drop|discard|rnr|out_of|timeout|retr|exceed"
                     r"|dup|lost|fail|bad|nak|flush|downed|overrun|cnp|ecn"
                     r"|congest|wait")


class Failed(Exception):
    """A step went wrong; says how."""


class NotRun(Exception):
    """A step does not apply, or lacks something; says what."""


def run(command, seconds, environment=None):
    """(status, output, complaints) of a command whose processes all end here.

    Raises Failed if it is still running after `seconds`.
    """
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True, env={**os.environ, **(environment or {})})
    except OSError as error:
        raise NotRun("cannot start %s: %s" %
                     (os.path.basename(command[0]), error.strerror)) from error
    try:
        output, complaints = process.communicate(timeout=max(seconds, 0.1))
    except subprocess.TimeoutExpired as error:
        raise Failed("it still ran after %d s" % seconds) from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, output, complaints


def _read(*path):
    """The text of a file below /sys, or "" if it has none."""
    try:
        with open(os.path.join(*path), errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def devices(root=DEVICES):
    return sorted(os.listdir(root)) if os.path.isdir(root) else []


def _has_address(device, address, root):
    """Whether `device` has a GID for the address (RoCE), or is the device of
    the network interface that has it (InfiniBand, iWARP)."""
    mapped = "0000:0000:0000:0000:0000:ffff:" + "%02x%02x:%02x%02x" % tuple(
        socket.inet_aton(address))
    if any(_read(path) == mapped for path in
           glob.glob(os.path.join(root, device, "ports", "*", "gids", "*"))):
        return True
    with contextlib.suppress(Failed, NotRun, ValueError):
        shown = run(["ip", "-json", "address", "show", "to", address + "/32"],
                    10)[1]
        return any(os.path.exists("/sys/class/net/%s/device/infiniband/%s" %
                                  (link.get("ifname"), device))
                   for link in json.loads(shown or "[]"))
    return False


def device_at(address, wanted="", root=DEVICES):
    """The device called `wanted`, or else the one of this host's `address`.

    Raises NotRun if there is none, or if it must be named.
    """
    found = devices(root)
    if not found:
        raise NotRun("this host has no RDMA device")
    if wanted:
        if wanted not in found:
            raise NotRun("this host has no RDMA device %s; it has %s" %
                         (wanted, ", ".join(found)))
        return wanted
    matching = [each for each in found if _has_address(each, address, root)]
    if len(matching) == 1 or len(found) == 1:
        return (matching or found)[0]
    raise NotRun("which of the RDMA devices %s is it? --device=NAME says so" %
                 ", ".join(matching or found))


def is_iwarp(device):
    return "RNIC" in _read(DEVICES, device, "node_type")


def counters(device, root=DEVICES):
    """The counters of all ports by their names, as "1/hw_counters/NAME"."""
    found = {}
    ports = os.path.join(root, device, "ports")
    for path in sorted(glob.glob(os.path.join(ports, "*", "*counters", "*"))):
        value = _read(path)
        # `lifespan` says how old the values may be.
        if value.isdigit() and os.path.basename(path) != "lifespan":
            found[os.path.relpath(path, ports)] = int(value)
    return found


def growth(before, after):
    """What has changed between two answers of counters()."""
    return {name: value - before.get(name, 0) for name, value in after.items()
            if value != before.get(name, 0)}


def errors_in(grown):
    """The counters in `grown` that name an error, a loss or congestion."""
    return {name: value for name, value in grown.items()
            if _ERRORS.search(os.path.basename(name))}


def facts(device):
    """What a reader must know of this host, by names; without identities."""
    folder = os.path.join(DEVICES, device)
    pci = os.path.join(folder, "device")
    driver = os.path.basename(os.path.realpath(os.path.join(pci, "driver")))
    known = {
        "kernel": platform.release() + " " + platform.machine(),
        "distribution": _first(r'PRETTY_NAME="(.*)"', _read("/etc/os-release")),
        "processor": "%d x %s" % (
            os.cpu_count(),
            _first(r"model name\s*: (.*)", _read("/proc/cpuinfo"))),
        # ./dev knows whether files differ from the revision. To look takes a
        # virtual machine a minute.
        "verbena": os.environ.get("VERBENA_REVISION") or _output(
            "git", "-C", ROOT, "rev-parse", "--short", "HEAD"),
        "packages": ", ".join(_output(
            "dpkg-query", "-W", "-f", "${Package} ${Version}\n",
            *_PACKAGES).splitlines()),
        "device": device,
        "driver": " ".join([driver if os.path.exists(pci) else "software",
                            _read("/sys/module", driver, "version")]).strip(),
        "board": _read(folder, "board_id") or _read(folder, "hca_type"),
        "firmware": _read(folder, "fw_ver"),
        "pci link": " x".join(filter(None, (
            _read(pci, "current_link_speed"),
            _read(pci, "current_link_width")))),
        "numa node": _read(pci, "numa_node"),
    }
    for port in sorted(os.listdir(os.path.join(folder, "ports"))):
        known["port " + port] = ", ".join(
            _read(folder, "ports", port, name)
            for name in ("link_layer", "state", "phys_state", "rate"))
        interfaces = {_read(path) for path in glob.glob(os.path.join(
            folder, "ports", port, "gid_attrs", "ndevs", "*"))} - {""}
        known["port %s, interfaces" % port] = ", ".join(
            "%s (MTU %s)" % (name, _read("/sys/class/net", name, "mtu"))
            for name in sorted(interfaces))
    known["ibv_devinfo -v"] = _output("ibv_devinfo", "-v", "-d", device)
    return {name: value for name, value in known.items() if value}


def _first(pattern, text):
    found = re.search(pattern, text)
    return found.group(1) if found else ""


def _output(*command):
    """What a command prints; "" if it cannot be run. Of dpkg-query, all that
    it knows: it ends with status 1 if a package is not installed."""
    try:
        return run(list(command), 30)[1].strip()
    except (Failed, NotRun):
        return ""


# Identities: Ethernet and IPv6 addresses, GUIDs and GIDs, and IPv4 addresses.
# The first group of a GID stays, which says of what kind it is.
_IDENTITIES = (
    (re.compile(r"\b([0-9a-f]{4}):(?:[0-9a-f]{4}:){2,6}[0-9a-f]{4}\b"),
     r"\1:[...]"),
    # GIDs with decimal bytes, as perftest prints them.
    (re.compile(r"\b(?:[0-9a-f]{2,3}:){5,}[0-9a-f]{2,3}\b"), "[address]"),
    (re.compile(r"\b(fe80):(?::?[0-9a-f]{1,4})+"), r"\1:[...]"),
    (re.compile(r"\b(?:[0-9a-f]{1,4}:){1,6}:(?:[0-9a-f]{1,4}:?)+\b"),
     "[address]"),
    (re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"), "[address]"),
)


def redacted(value):
    """The same structure without addresses, GUIDs, the host's name, and the
    names of folders that may name the user."""
    if isinstance(value, dict):
        return {redacted(key): redacted(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(each) for each in value]
    if not isinstance(value, str):
        return value
    value = value.replace(ROOT, ".").replace(os.path.expanduser("~"), "~")
    host = socket.gethostname()
    for name in (host, host.partition(".")[0]):
        if name and name != "localhost":
            value = re.sub(r"(?<![\w-])%s(?![\w-])" % re.escape(name), "[host]",
                           value)
    for pattern, replacement in _IDENTITIES:
        value = pattern.sub(replacement, value)
    return value
