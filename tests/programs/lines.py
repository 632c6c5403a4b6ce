"""Programs that others wrote, as lines of a table: each passes on a device, or
says why it does not apply there.

In the options stand {address} (the server's), {device} and {gid} (the place of
the own address in the own GID table).
"""

import dataclasses
import os
import re

# The columns of the table.
SOFT = "soft"
SOFT_TCP = "soft, TCP"
RXE = "rxe"
SIW = "siw"
# The software device and siw: see run_between.
SOFT_CALLS_SIW = "soft calls siw"
SIW_CALLS_SOFT = "siw calls soft"

# Where a server says that it is ready.
PORT = "port"  # A TCP port, by which the two exchange what they must know.
CM = "cm"      # The connection manager's.


@dataclasses.dataclass(frozen=True)
class Line:
    title: str
    client: str
    server: str = ""       # None for a program that is alone.
    ready: str = PORT
    port: int = 18515
    expect: str = ""       # A regular expression in what the client prints.
    # The server serves on, and is stopped when all clients have ended.
    stays: bool = False
    clients: int = 1
    seconds: int = 20
    # What the server must not print: a regular expression.
    refuse: str = ""
    # Failures that are the program's own and may be tried again: a regular
    # expression in what is said of one.
    again_if: str = ""
    attempts: int = 1
    # Why it does not apply, by column.
    reasons: tuple = ()

    def reason(self, column):
        reason = dict(self.reasons).get(column)
        return reason or (_reason_on_siw(self) if column == SIW else None)


def bears_losses(line):
    """The same line for siw, which now and then loses what a client sends
    before the server's end is set up. Most programs then wait for ever."""
    again = "still ran after its bound"
    return dataclasses.replace(
        line, attempts=max(line.attempts, 3), seconds=line.seconds / 2,
        again_if="|".join(filter(None, (line.again_if, again))))


def _reason_on_siw(line):
    if re.search(r"\b(UD|ud_\w+|udaddy|mckey|udpong|dgram)\b", line.title):
        return "datagrams, which iWARP has not"
    if "atomic" in line.title:
        return "atomic operations, which siw has not"
    if line.title.startswith("qperf"):
        return "a queue pair such as siw refuses with EINVAL"
    by_hand = line.ready == PORT and line.server is not None
    if by_hand and not line.title.startswith("fi_pingpong"):
        return ("queue pairs that the program makes ready itself, where iWARP "
                "has its connection manager do so")
    return None


def _pingpong(name, options="", reasons=()):
    words = "ibv_%s_pingpong -d {device} -g {gid} -n 200%s" % (
        name, options and " " + options)
    return Line(" ".join(["ibv_%s_pingpong" % name, options]).strip(),
                server=words, client=words + " {address}",
                expect=r"200 iters in", refuse=r"invalid data",
                reasons=reasons)


def _perftest(tool, options, **more):
    """One line. With -R the connection manager carries what must be known."""
    # All sizes go up to 8 MiB, which takes an emulated processor long. And for
    # each size perftest measures the processor's speed, by the clock.
    all_sizes = "-a" in options.split()
    iterations = 5 if all_sizes else 100
    words = "%s -d {device} -F -n %d %s" % (tool, iterations, options)
    # With -R the server closes its listener and opens another behind the first
    # connection. A client that comes in between finds nobody, on any device,
    # and crashes over it. For datagrams the kernel calls that unreachable. Both
    # ends take the same second and some ms to get there: every third run, and
    # on a busy machine more, is lost that way.
    by_cm = "-R" in options.split()
    # The last figures, below the head of the table.
    return Line("%s %s" % (tool, options), server=words,
                client=words + " {address}", ready=CM if by_cm else PORT,
                seconds=150 if all_sizes else 20, attempts=20 if by_cm else 1,
                again_if="RDMA_CM_EVENT_(REJECTED|UNREACHABLE)|"
                "ERRNO: Connection refused",
                expect=r"#bytes.*\n( *\d+ +\d+.*\n)+", **more)


_NEEDED_FOR_ALL = tuple(
    (column, "XRC queue pairs, which the device has not") for column in
    (SOFT, SOFT_TCP, RXE, SIW))

TOOLS = [
    Line("ibv_devices", server=None, client="ibv_devices",
         expect=r"\n +{device} "),
    Line("ibv_devinfo -v", server=None, client="ibv_devinfo -v -d {device}",
         expect=r"hca_id:\s+{device}\n(.*\n)*.*PORT_ACTIVE(.*\n)*.*GID\[",
         reasons=((SIW, "a table of GIDs, which iWARP has not"),)),
    _pingpong("rc"),
    _pingpong("rc", "-e"),
    _pingpong("rc", "-c"),
    _pingpong("srq"),
    _pingpong("uc"),
    _pingpong("ud"),
    _pingpong("xsrq", reasons=_NEEDED_FOR_ALL),
    Line("rping", server="rping -s -a {address} -C 20 -V",
         client="rping -c -a {address} -C 20 -V -v", ready=CM, port=7174,
         expect=r"ping data: rdma-ping-19:"),
    Line("rping -P", server="rping -s -P -a {address} -V",
         client="rping -c -a {address} -C 5 -V -v", ready=CM, port=7174,
         stays=True, clients=2, expect=r"ping data: rdma-ping-4:"),
    Line("ucmatose", server="ucmatose -c 4",
         client="ucmatose -s {address} -c 4",
         ready=CM, port=7471, expect=r"return status 0"),
    Line("udaddy", server="udaddy -c 2", client="udaddy -s {address} -c 2",
         ready=CM, port=7174, expect=r"return status 0"),
    Line("mckey", server="mckey -m 239.77.0.1 -b {address} -C 5",
         client="mckey -s -m 239.77.0.1 -b {own_address} -C 5", ready="",
         expect=r"return status 0"),
    Line("rdma_server, rdma_client", server="rdma_server",
         client="rdma_client -s {address}", ready=CM, port=7471,
         expect=r"rdma_client: end 0"),
    Line("rdma_xserver, rdma_xclient", server="rdma_xserver -c x",
         client="rdma_xclient -s {address} -c x", ready=CM, port=7471,
         expect=r"rdma_xclient: end 0", reasons=_NEEDED_FOR_ALL),
    Line("cmtime", server="cmtime", client="cmtime -s {address} -c 20",
         ready=CM, port=7471, stays=True, expect=r"(?m)^connect +: "),
    Line("rcopy", server="rcopy",
         client="sh -ec 'd=$(mktemp -d) && trap \"rm -r $d\" EXIT && "
         "rcopy /bin/ls {address}:$d/copy && cmp /bin/ls $d/copy'",
         ready=CM, port=7427, stays=True, expect=r"\d+ bytes in "),
]

# Sockets over RDMA, with the options that each of the two has: asynchronous,
# blocking, in a forked process, non-blocking, by rdma_getaddrinfo, verifying
# what came. To fork they exchange the addresses over TCP first. The client that
# is asynchronous takes the end of the connection for a failure (POLLHUP, 16) if
# it comes together with the last bytes.
_RSOCKETS = [
    Line("%s -T %s" % (tool, mode),
         server="%s -T %s -C 10 -S 4096" % (tool, mode),
         client="%s -s {address} -T %s -C 10 -S 4096" % (tool, mode),
         ready=PORT if mode == "f" else CM, port=7471,
         expect=r"(?m)^\S+ +4k ", again_if="client ended with status 16",
         attempts=60 if mode == "a" else 1)
    for tool, modes in (("rstream", "abfnrv"), ("riostream", "abnv"))
    for mode in modes
] + [
    Line("udpong", server="udpong -C 10 -S 1024",
         client="udpong -s {address} -C 10 -S 1024", ready=CM, port=7174,
         expect=r"(?m)^\S+ +1k ",
         reasons=tuple((column, "queues as deep as the kernel's devices "
                        "allow, of which there is none")
                       for column in (SOFT, SOFT_TCP)) + (
                           (RXE, "rconnect, which the kernel answers with "
                            "ENOENT"),)),
]

_SEND = [
    _perftest("ib_send_lat", options) for options in (
        "-c RC", "-c UC", "-c UD", "--use-srq", "-e", "-R", "-R -c UD")
] + [
    _perftest("ib_send_bw", options) for options in (
        "-c RC", "-c UC", "-c UD", "--use-srq -q 4", "-e", "-R", "-b",
        "-b -c UD", "-q 4", "-a")
]
_WRITE = [
    _perftest("ib_write_lat", options)
    for options in ("-c RC", "-c UC", "-R")
] + [
    _perftest("ib_write_bw", options)
    for options in ("-c RC", "-c UC", "-R", "-b", "-a", "-q 4")
]
_READ = [
    _perftest("ib_read_lat", options) for options in ("-c RC", "-e", "-R")
] + [
    _perftest("ib_read_bw", options)
    for options in ("-c RC", "-e", "-R", "-b", "-q 4")
]
_ATOMIC = [
    _perftest("ib_atomic_lat", options)
    for options in ("-A CMP_AND_SWAP", "-A FETCH_AND_ADD", "-e", "-R")
] + [
    _perftest("ib_atomic_bw", options)
    for options in ("-A CMP_AND_SWAP", "-A FETCH_AND_ADD", "-e", "-R", "-b",
                    "-q 4")
]



def _qperf(tests, **more):
    # It is told nothing of GIDs, so the connection manager finds the way.
    # qperf 0.4.11 tells its client the port before it listens there (later
    # sources have mended that). A client that is quicker is rejected, on any
    # device.
    return Line("qperf %s" % tests, server="qperf",
                client="qperf -cm 1 -t 1 {address} " + tests, port=19765,
                stays=True, expect=r"(latency|bw) +=", attempts=4,
                again_if="from RDMA CM: Event rejected", **more)


def _fio(verb, **more):
    # Whichever is to write is the client, whatever its verb.
    words = "fio --thread --ioengine=rdma --port=8888 --bs=4k --size=256k"
    return Line("fio, rdma engine, %s" % verb,
                server=words + " --name=server --rw=read --iodepth=16",
                client=words + " --name=client --hostname={address} "
                "--iodepth=8 --rw=write --verb=" + verb,
                ready=CM, port=8888,
                expect=r"(?m)^ +(READ|WRITE): bw=.*io=256KiB",
                **more)


def _pingpong_of_libfabric(endpoint, provider, **more):
    words = "fi_pingpong -p \"%s\" -e %s -I 50 -S 1024" % (provider, endpoint)
    return Line("fi_pingpong -e " + endpoint, server=words,
                client=words + " {address}", port=47592,
                expect=r"\n1k +50 +=50 ",
                **more)


def _ucx_perftest(transports, test):
    # Which kind of address a datagram has, UCX takes from a field in which only
    # mlx5 says that.
    words = ("env UCX_NET_DEVICES={device}:1 UCX_TLS=%s "
             "UCX_UD_VERBS_ETH_DGID_CHECK=n ucx_perftest" % transports)
    return Line("ucx_perftest -t %s, %s" % (test, transports), server=words,
                client=words + " {address} -t %s -n 100 -s 4096" % test,
                port=13337, expect=r"Final: +100 ", seconds=40)


_RXM_REFUSED = ((RXE, "fi_enable, to which rxe answers EINVAL"),
                (SIW, "fi_enable, to which siw answers EINVAL"))
_MPI = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "mpi_two_ranks.py")
# Both ranks are of one host.
_OPEN_MPI = Line(
    "Open MPI, two ranks", server=None, seconds=60,
    client="mpirun --allow-run-as-root --oversubscribe -np 2 --mca pml cm "
    "--mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm " + _MPI,
    expect=r"rank [01] is done(.*\n)*rank [01] is done",
    reasons=((SOFT_TCP, "no second host to start a rank on"),) + _RXM_REFUSED)

_LOOPBACK = ((SOFT_TCP, "the server tells its client a loopback address"),)
_OTHERS = [
    _qperf("rc_lat rc_bw"),
    _qperf("rc_rdma_read_lat rc_rdma_write_bw"),
    _qperf("ud_lat", reasons=tuple(
        (column, "address handles without a global route, which RoCE has not")
        for column in (SOFT, SOFT_TCP, RXE))),
    _fio("write"),
    _fio("read"),
    _fio("send", reasons=tuple(
        (column, "SENDs that may come before their receives, with no retry")
        for column in (SOFT, SOFT_TCP, RXE, SIW))),
    _pingpong_of_libfabric("msg", "verbs", reasons=_LOOPBACK),
    _pingpong_of_libfabric("rdm", "verbs;ofi_rxm",
                           reasons=_LOOPBACK + _RXM_REFUSED),
    _pingpong_of_libfabric("dgram", "verbs"),
    _OPEN_MPI,
    _ucx_perftest("rc_verbs,ud_verbs", "tag_lat"),
    _ucx_perftest("rc_verbs,ud_verbs", "ucp_put_lat"),
    _ucx_perftest("ud_verbs", "tag_lat"),
]

LINES = TOOLS + _RSOCKETS + _SEND + _WRITE + _READ + _ATOMIC + _OTHERS

# Lines between the software device and siw: see run_between. Titles,
# with the reasons by column why they do not apply.
_BOTH_WAYS = (SOFT_CALLS_SIW, SIW_CALLS_SOFT)
_BETWEEN = {
    "rping": (),
    "ib_send_lat -R": (),
    "ib_send_bw -R": tuple(
        (column, "credits, which perftest gives on an iWARP device only")
        for column in _BOTH_WAYS),
    # The software device keeps to RFC 5044, section 7.1. siw asks for no first
    # message of its own (RFC 6581), and as a server does not wait for one.
    "ib_write_lat -R": (
        (SIW_CALLS_SOFT, "a server that sends first, which MPA forbids"),),
    "ib_write_bw -R": (),
    "ib_read_lat -R": (),
    "ib_read_bw -R": (),
    "ib_atomic_lat -R": tuple(
        (column, "atomic operations, which siw has not")
        for column in _BOTH_WAYS),
    "rstream -T b": tuple(
        (column, "immediate data, which siw has not")
        for column in _BOTH_WAYS),
}


def _shorter(words):
    """Fewer rounds: each takes an emulated processor long, and none is new."""
    return words.replace(" -n 100 ", " -n 20 ")


BETWEEN = [dataclasses.replace(line, reasons=_BETWEEN[line.title],
                               server=_shorter(line.server),
                               client=_shorter(line.client))
           for line in LINES if line.title in _BETWEEN]

# siw may not see the first message before the second comes (bears_losses).
_UNANSWERED = "did not answer the HELLO"


def verbena(bin_dir):
    """Verbena's own programs, as lines."""
    hello = bin_dir + "/examples/hello/"
    bench = bin_dir + "/tools/rpc_bench/rpc_bench"
    return [
        Line("examples/hello", server=hello + "server --listen={address}:50051",
             client=hello + "client --target={address}:50051", ready=CM,
             port=50051, stays=True, again_if=_UNANSWERED, attempts=5,
             expect="Hello"),
        Line("rpc_bench", server=bench + " --server={address}:50051",
             client=bench + " --target={address}:50051 --layer=rpc --size=64,"
             "1MiB --iterations=10 --outstanding=1,4 --validate", ready=CM,
             port=50051, stays=True, again_if=_UNANSWERED, attempts=5,
             expect="1 MiB"),
    ]
