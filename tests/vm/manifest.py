"""What runs in the guests. Bounds are in seconds, for an emulated processor."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Test:
    """A GoogleTest binary."""
    label: str
    seconds: int = 60
    # rxe must have sent and seen no receiver-not-ready NAK while it ran.
    no_rnr: bool = False
    environment: tuple = ()
    arguments: tuple = ()
    # Tells apart steps that run the same binary.
    variant: str = ""
    # siw0 is there only while steps that use it run. soft0 is the software
    # device, which needs none of the kernel's.
    device: str = "rxe0"
    # Runs only where --step names it.
    by_command: bool = False


@dataclasses.dataclass(frozen=True)
class Command:
    """Passes if it ends with status 0. {bin} is where Bazel put the programs,
    {repository} the checkout, {address} that of its device in the (first)
    guest."""
    name: str
    text: str
    seconds: int = 60
    no_rnr: bool = False
    # Its output belongs in the report, as what was measured.
    shown: bool = False
    device: str = "rxe0"
    # Runs only where --step names it.
    by_command: bool = False


@dataclasses.dataclass(frozen=True)
class Programs:
    """The programs of tests/programs, each a test of its own."""
    name: str
    seconds: int
    # Another script of that folder than run_lines, which leaves its counts in
    # the file of --results.
    script: str = ""
    shown: bool = False
    no_rnr: bool = False
    device: str = "rxe0"
    # Runs only where --step names it.
    by_command: bool = False


@dataclasses.dataclass(frozen=True)
class Pair:
    """A server in the first guest, a test or a command in the second."""
    server: Command
    client: object


HELLO_SERVER = "{bin}/examples/hello/server"
HELLO_CLIENT = "{bin}/examples/hello/client"
WITH_SERVER = "{repository}/tools/dev/with_server.py"
PRELOAD = "{bin}/transport/soft/preload/libverbena-soft.so"
NIC_PROOF = "{repository}/tools/nic_proof/nic_proof.py --bin-dir={bin}"
BENCH = "{bin}/tools/rpc_bench/rpc_bench"
END_TO_END = "//tests/integration:rpc_end_to_end_test"
STREAMING = "//tests/integration:rpc_streaming_test"
FORMS = "//tests/integration:rpc_forms_test"
SEALED = "//tests/integration:sealed_rpc_calls_test"
_TLS = (("VERBENA_TEST_TLS", "1"),)

# About memory and not about the wire: they take half of the time.
_MEMORY = "*.SixtyFourMebibytes:*.LargerThanTheFirstArenaAndAllThatMayBeSent"
# Suites that call UseServer(). They run between two guests, so the first guest
# leaves them out.
_BETWEEN_HOSTS = ("AttachmentTest.*:CallbacksTest.*:ChannelsTest.*:"
                  "GenericStubTest.*:LongStatusTest.*:MetadataTest.*:"
                  "StatusTest.*")

# Suites about clocks, and about channels above their connections.
_NO_DEVICE = ("ClockTest.*:RetriesTest.*:HedgingTest.*:FitServersTest.*:"
              "ResolversTest.*")

# Guests that know nothing of each other, for they are booted together: one
# keeps little more than a processor busy.
FIRST_GUEST = [
    Test("//transport/verbs:system_provider_test"),
    Test("//tests/conformance:conformance_test", seconds=300),
    # All but what the end-to-end tests do as well, and takes 45 s.
    Test("//tests/transport:transport_test", seconds=300, no_rnr=True,
         arguments=("--gtest_filter=-*.EchoesTheLargestMessage",)),
    Test("//tests/transport:client_poller_test", seconds=300),
    Test("//tests/transport:transport_attachment_test", seconds=300,
         no_rnr=True),
    Test("//tests/transport:transport_continued_test", seconds=300,
         no_rnr=True),
    Test("//tests/transport:transport_trains_test", seconds=300),
    Test("//tests/transport:revoking_transport_attachment_test", seconds=300,
         no_rnr=True, environment=(("VERBENA_TEST_REVOKE_LEASES", "1"),)),
    # Sums are computed and compared on no device.
    Test("//tests/transport:transport_checksum_test", seconds=300,
         by_command=True),
    Test("//tests/transport:transport_credentials_test", seconds=300,
         no_rnr=True),
    Test("//tests/transport:transport_cancel_test", seconds=300, no_rnr=True),
    # Limits are for the two sides to keep, not for a device.
    Test("//tests/transport:transport_limits_test", seconds=300, no_rnr=True,
         by_command=True),
    Test("//tests/transport:transport_memory_test", seconds=300, no_rnr=True),
    Test("//tests/transport:transport_shutdown_test", seconds=300, no_rnr=True),
    Test(END_TO_END, seconds=400, no_rnr=True,
         arguments=("--gtest_filter=-PayloadTest.*:" + _BETWEEN_HOSTS + ":" +
                    _NO_DEVICE,)),
    Test(SEALED, seconds=300, no_rnr=True, environment=_TLS,
         arguments=("--gtest_filter=-" + _MEMORY,)),
    # Those that show a device; the others show forms of calls, as FORMS does.
    Test("//tests/integration:examples_test", seconds=300,
         arguments=(HELLO_SERVER,
                    "--gtest_filter=HelloTest.*:FileTransferTest.*")),
    Test("//tests/integration:locked_memory_test", seconds=300),
    # The rest of the program's output is the same on each device.
    Test("//tools/verbena:verbena_test", seconds=300,
         arguments=("{bin}/tools/verbena/verbena",
                    "--gtest_filter=*.PingsAnyServer:*.SaysThatNobodyIsThere:"
                    "*.SendsAndKeepsAttachments")),
    Test("//tools/rdma_doctor:rdma_doctor_test", seconds=300,
         arguments=("{bin}/tools/rdma_doctor/rdma_doctor",)),
    # Servers are replaced under load.
    Command("fleet", "{repository}/examples/fleet/run --bin-dir={bin} "
            "--address={address} --servers=3 --tasks=2000", seconds=120),
    Command("hello", WITH_SERVER + " --timeout=30 -- " + HELLO_SERVER +
            " --listen={address}:0 -- " + HELLO_CLIENT +
            " --target={{address}}", no_rnr=True, shown=True),
    # What measures comes last, when the other guest has ended.
    Command("rpc_bench", BENCH + " --layer=rpc --duration=500ms "
            "--device=rxe0", seconds=120, shown=True),
    Command("rpc_bench_layers", BENCH + " --layer=verbs,transport,rpc "
            "--size=64 --duration=500ms --device=rxe0", seconds=120,
            no_rnr=True, shown=True),
    Command("rpc_bench_verbs", BENCH + " --layer=verbs,transport,rpc "
            "--size=64,64KiB --duration=300ms --device=rxe0 --verbs-op=echo "
            "--verbs-count", seconds=120, no_rnr=True, shown=True),
    Command("rpc_bench_events", BENCH + " --layer=verbs,transport,rpc "
            "--size=64 --duration=500ms --device=rxe0 --events "
            "--verbs-op=echo", seconds=120, no_rnr=True, shown=True),
    Command("ib_send_lat", "perftest ib_send_lat -s 64 -n 2000", shown=True),
    Command("ib_send_bw", "perftest ib_send_bw -s 65536 -n 500", shown=True),
    Command("ib_write_bw", "perftest ib_write_bw -s 65536 -n 500", shown=True),
    # The software device, on lines that only this kernel can make. Datagrams
    # are left out because they may get lost. The two others take half of the
    # time with thousands of rounds. What they do, other cases do once.
    Test("//tests/conformance:conformance_tcp_test", seconds=400,
         device="soft0",
         arguments=("--netem=delay 2ms 1ms reorder 10% loss 1% duplicate 1%",
                    "--gtest_filter=-*Datagrams*:MulticastTest.*:"
                    "CompletionQueueThreadsTest.*:*.ManyRounds*")),
]

def siw(entry):
    """The same on the kernel's software iWARP."""
    return dataclasses.replace(entry, device="siw0")


# Tests that siw cannot pass, and why: the rest of each program runs.
SIW_DIFFERS = {
    # A server that speaks before its client has is refused by MPA.
    "//tests/transport:client_poller_test":
        "-*.HearsWhyAServerLeftBeforeItHadSaidAnything",
    # iWARP has no immediate data: nothing takes a receive with a WRITE.
    "//tests/transport:hostile_client_frames_test":
        "-*.MustNotTakeAReceiveWithAWrite:"
        # The sender is not told that its message is too long for a receive.
        "*.MustNotSendFramesLargerThanASlot:"
        # If the SENDs of a side are held up, siw does not tell it that its peer
        # has closed. own_receives_test floods a device without SRQs.
        "*.StarvesNobodyWithAFloodBeyondItsCredits:"
        "*.TenFloodersStarveNobodyWhoComesAfterThem:"
        "*.SendsNothingBeyondItsCreditsAfterAnError:"
        # The count of receiver-not-ready retries is InfiniBand's.
        "*.ClientsTryUntilThereIsAReceive",
    "//tests/transport:hostile_server_frames_test":
        "-*.EndsCallsForAWriteThatTakesAReceive:"
        # As for clients.
        "*.ServersTryUntilThereIsAReceive",
    # siw has no memory windows; the channel says so. How streams end, and are
    # sent again, no device sees.
    STREAMING: "StreamingTest.*:StreamingFlowTest.*:StreamingLongTest.*:"
               "-*.WithChecksumsOrRevokedLeasesArriveToo",
}


def differing(label):
    """The arguments with which `label` runs on siw."""
    return ("--gtest_filter=" + SIW_DIFFERS[label],)


# A part of what runs on rxe: what a device can do otherwise, rather than what
# no device sees. In a guest of its own. The conformance tests are not in it:
# they modify their queue pairs, which iWARP leaves to its connection manager.
ON_SIW = [siw(entry) for entry in (
    Test("//tests/transport:transport_test", seconds=300,
         arguments=("--gtest_filter=-*.EchoesTheLargestMessage",)),
    Test("//tests/transport:client_poller_test", seconds=120,
         arguments=differing("//tests/transport:client_poller_test")),
    Test("//tests/transport:transport_attachment_test", seconds=120),
    Test("//tests/transport:transport_trains_test", seconds=120),
    Test("//tests/transport:transport_memory_test", seconds=120),
    Test("//tests/transport:transport_shutdown_test", seconds=120),
    Test("//tests/transport:hostile_client_frames_test", seconds=120,
         arguments=differing("//tests/transport:hostile_client_frames_test")),
    Test("//tests/transport:hostile_client_hello_test", seconds=120),
    Test("//tests/transport:hostile_server_frames_test", seconds=120,
         arguments=differing("//tests/transport:hostile_server_frames_test")),
    Test("//tests/transport:killed_peer_test", seconds=120),
    Test(END_TO_END, seconds=200, arguments=(
        "--gtest_filter=PayloadTest.*:AttachmentTest.*:MetadataTest.*:"
        "StatusTest.*:-" + _MEMORY,)),
    Test(STREAMING, seconds=300, arguments=differing(STREAMING)),
    Test(SEALED, seconds=200, environment=_TLS, arguments=(
        "--gtest_filter=PayloadTest.*:AttachmentTest.*:-" + _MEMORY,)),
    Programs("programs.siw", seconds=900, by_command=True),
    Command("hello.siw", WITH_SERVER + " --timeout=30 -- " + HELLO_SERVER +
            " --listen={address}:0 -- " + HELLO_CLIENT +
            " --target={{address}}", shown=True),
    Command("rpc_bench.siw", BENCH + " --layer=transport,rpc "
            "--size=64,64KiB,1MiB --duration=300ms --device=siw0",
            seconds=120, shown=True),
    Command("rpc_bench_events.siw", BENCH + " --layer=transport,rpc "
            "--size=64 --duration=300ms --device=siw0 --events",
            seconds=120, shown=True),
    # The last, for it takes siw0 away.
    Programs("between.siw", seconds=600, shown=True, by_command=True,
             script="run_between --bin-dir={bin}"),
)]

SECOND_GUEST = [
    # Nothing of ours takes part. They are what a column of the software device
    # is compared with, when that or the programs change.
    Programs("programs", seconds=900, by_command=True),
    # conformance_tcp_test in the first guest has such a line, too.
    Command("bad_lines", "{repository}/tests/programs/run_cable --bad-lines "
            "--bin-dir={bin}", seconds=240, by_command=True),
    # The preloaded library lets the kernel's device alone.
    Command("beside_rxe", "export LD_PRELOAD=" + PRELOAD + "; ibv_devices | "
            "grep -q soft0 && {repository}/tests/programs/run_lines "
            "--device=rxe0 --address={address} --only='ib_send_lat -R'",
            seconds=120),
    Test("//tests/transport:hostile_client_hello_test", seconds=150),
    Test("//tests/transport:hostile_client_frames_test", seconds=150),
    Test("//tests/transport:hostile_client_memory_test", seconds=150),
    Test("//tests/transport:hostile_client_metadata_test", seconds=150),
    Test("//tests/transport:hostile_client_shares_test", seconds=150),
    Test("//tests/transport:hostile_client_stalls_test", seconds=300),
    Test("//tests/transport:hostile_server_hello_test", seconds=150),
    Test("//tests/transport:hostile_client_streams_test", seconds=150),
    Test("//tests/transport:hostile_client_trains_test", seconds=150),
    Test("//tests/transport:hostile_server_frames_test", seconds=150),
    Test("//tests/transport:hostile_server_metadata_test", seconds=150),
    Test("//tests/transport:hostile_server_streams_test", seconds=150),
    Test("//tests/transport:hostile_server_trains_test", seconds=150),
    Test("//tests/transport:hostile_server_leases_test", seconds=150),
    # All but the longest: each call of a server in turn.
    Test("//tests/transport:faults_test", seconds=120,
         arguments=("--gtest_filter=-*AServerWhoseDeviceFailsOnce*",)),
    Test("//tests/transport:killed_peer_test", seconds=150),
    Test("//tests/endurance:kill_test", seconds=400,
         arguments=("--kills=2", "--overrun_seconds=8")),
    # Fewer than natively: connecting takes long on an emulated processor.
    Test("//tests/transport:many_connections_test", seconds=200, no_rnr=True,
         arguments=("--connections=200",)),
    # No device sees that a stream is sent again.
    Test(STREAMING, seconds=600, no_rnr=True,
         arguments=("--gtest_filter=-*StreamRetries*",)),
    # Each form of call, ended at any moment; interceptors, reactors and
    # coroutines see no device. Few of the moments that are drawn natively:
    # others in each run.
    Test(FORMS, seconds=600, no_rnr=True,
         arguments=("--gtest_filter=*/EachFormTest.*:*/Cancel*:RelayTest.*",),
         environment=(("VERBENA_TEST_DRAWS", "1"),)),
    # These two are the last, for they take rxe0 away and make another.
    Test("//tests/endurance:flap_test", seconds=120,
         arguments=("--down=rdma link del rxe0",
                    "--up=rdma link add rxe0 type rxe netdev net0",
                    "--flaps=4")),
    Test("//tools/rdma_doctor:broken_machine_test", seconds=600,
         arguments=("{bin}/tools/rdma_doctor/rdma_doctor",)),
]

APART = [FIRST_GUEST, SECOND_GUEST]

# An interface goes down and comes back. rxe then takes no messages of the
# connection manager (docs/deploying.md), so calls stay on TCP until the device
# is made anew. If rxe has connected again meanwhile, that ends a second call.
INTERFACE_DOWN = "ip link set net0 down; sleep 3; ip link set net0 up"
RXE_ANEW = "rdma link del rxe0; rdma link add rxe0 type rxe netdev net0"


def other_guest(command):
    """The command that runs `command` in the other of two guests."""
    return "bash -c '. tests/vm/guest/steps.sh; ask \"%s\"'" % command


def flap(variant, port, down, up, *arguments):
    """flap_test with a server in the first guest."""
    return Pair(Command("flap_server" + variant, "{bin}/tests/endurance/"
                        "flap_test --serve={address}:%d" % port, seconds=300),
                Test("//tests/endurance:flap_test", variant=variant,
                     seconds=240, arguments=(
                         "--target={address}:%d" % port, "--flaps=2",
                         "--down=" + down, "--up=" + up, *arguments)))


# Two guests on one wire.
JOINED = [
    Pair(Command("hello_server", HELLO_SERVER + " --listen={address}:50051"),
         Command("hello_client", HELLO_CLIENT + " --target={address}:50051",
                 shown=True)),
    Pair(Command("e2e_server", "{bin}/tests/integration/e2e_server "
                 "--listen={address}:50052", seconds=500, no_rnr=True),
         Test(END_TO_END, seconds=400, no_rnr=True,
              arguments=("--gtest_filter=PayloadTest.*:" + _BETWEEN_HOSTS +
                         ":-" + _MEMORY,),
              environment=(("VERBENA_TEST_SERVER", "{address}:50052"),))),
    # The server asks for a mark too, which must not count.
    Pair(Command("marks_server", "{bin}/tests/integration/e2e_server "
                 "--listen={address}:50056 --dscp=46", seconds=300),
         Command("marks", "{repository}/tests/programs/run_marks "
                 "--bin-dir={bin} --roce={address}:50056", seconds=240)),
    Pair(Command("nic_proof_server", NIC_PROOF + " --serve", seconds=400),
         Command("nic_proof", NIC_PROOF + " --peer={address} --quick "
                 "--out=$VM_SHARE/nic-proof || {{ cat "
                 "$VM_SHARE/nic-proof/report.md; false; }}", seconds=300,
                 shown=True, by_command=True)),
    # All that comes by RoCE is dropped, so the retry counter runs out. The rule
    # of ours must come before the one for local addresses.
    flap("", 50053,
         down="ip rule add pref 20 lookup local; ip rule del pref 0; "
         "ip rule add pref 10 iif net0 ipproto udp dport 4791 blackhole",
         up="ip rule del pref 10; ip rule add pref 0 lookup local; "
         "ip rule del pref 20"),
    flap(".server_down", 50055, other_guest(INTERFACE_DOWN),
         other_guest(RXE_ANEW), "--cuts=2"),
]
