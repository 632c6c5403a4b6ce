"""What a host is, what its devices count, and what the report says of both."""

import json
import os
import shlex
import socket
import sys
import tempfile
import threading
import types
import unittest
import xmlrpc.client
from unittest import mock

import nic_host
import nic_proof
import nic_report
import nic_serving
from nic_host import Failed, NotRun

LATENCIES = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    \
t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 64      100          244.05         9993.49      474.14   \t       1095.79 \
    \t1232.88\t\t9990.01 \t\t9993.49
-------------------------------------------------------------------------------
"""
BANDWIDTHS = """\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   \
MsgRate[Mpps]
 65536      1000             96.10              80.00               0.152588
"""


class Devices(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text + "\n")

    def give(self, device, gid):
        self.write(device + "/ports/1/gids/0",
                   "fe80:0000:0000:0000:5054:00ff:fe77:0001")
        self.write(device + "/ports/1/gids/1", gid)

    def test_the_device_that_has_the_address_is_meant(self):
        self.give("mlx5_0", "0000:0000:0000:0000:0000:ffff:0a00:0001")
        self.give("mlx5_1", "0000:0000:0000:0000:0000:ffff:0a00:00fe")
        self.assertEqual(
            nic_host.device_at("10.0.0.254", root=self.root), "mlx5_1")
        with self.assertRaisesRegex(NotRun, "mlx5_0, mlx5_1 is it"):
            nic_host.device_at("10.0.0.3", root=self.root)
        self.assertEqual(
            nic_host.device_at("10.0.0.3", "mlx5_0", self.root), "mlx5_0")
        with self.assertRaisesRegex(NotRun, "no RDMA device rxe0; it has mlx"):
            nic_host.device_at("10.0.0.3", "rxe0", self.root)

    def test_the_only_device_is_meant_whatever_its_address(self):
        self.give("rxe0", "0000:0000:0000:0000:0000:ffff:0a00:0001")
        self.assertEqual(nic_host.device_at("10.9.9.9", root=self.root), "rxe0")

    def test_a_host_without_devices_is_named(self):
        with self.assertRaisesRegex(NotRun, "no RDMA device"):
            nic_host.device_at("10.0.0.1", root=self.root + "/none")

    def test_counters_are_those_of_all_ports(self):
        self.write("d/ports/1/counters/port_rcv_errors", "3")
        self.write("d/ports/1/hw_counters/rnr_nak_retry_err", "0")
        self.write("d/ports/1/hw_counters/lifespan", "10")
        self.write("d/ports/2/counters/port_xmit_data", str(1 << 40))
        self.write("d/ports/1/counters/odd", "N/A (no PMA)")
        before = nic_host.counters("d", self.root)
        self.assertEqual(before, {"1/counters/port_rcv_errors": 3,
                                  "1/hw_counters/rnr_nak_retry_err": 0,
                                  "2/counters/port_xmit_data": 1 << 40})
        self.write("d/ports/1/hw_counters/rnr_nak_retry_err", "2")
        self.write("d/ports/2/counters/port_xmit_data", str((1 << 40) + 8))
        grown = nic_host.growth(before, nic_host.counters("d", self.root))
        self.assertEqual(grown, {"1/hw_counters/rnr_nak_retry_err": 2,
                                 "2/counters/port_xmit_data": 8})
        self.assertEqual(nic_host.errors_in(grown),
                         {"1/hw_counters/rnr_nak_retry_err": 2})

    def test_errors_are_told_from_traffic(self):
        def errors(*names):
            return list(nic_host.errors_in(dict.fromkeys(names, 1)))
        bad = ["local_ack_timeout_err", "out_of_buffer", "np_cnp_sent",
               "duplicate_request", "symbol_error", "port_xmit_wait",
               "rx_icrc_encapsulated_err", "np_ecn_marked_roce_packets",
               "roce_adp_retrans", "VL15_dropped", "link_downed"]
        self.assertEqual(errors(*bad), bad)
        self.assertEqual(errors("sent_pkts", "rcvd_pkts", "rx_write_requests",
                                "port_rcv_data", "unicast_xmit_packets",
                                "rdma_recvs", "rx_atomic_requests",
                                "ack_deferred"), [])


class Redaction(unittest.TestCase):

    def test_addresses_and_names_are_replaced(self):
        host = socket.gethostname()
        text = nic_host.redacted({"a": ["%s %s/x %s/y" % (
            host, nic_host.ROOT, os.path.expanduser("~"))], "b": 3})
        self.assertEqual(text, {"a": ["[host] ./x ~/y"], "b": 3})
        for text, wanted in (
                ("listening on 10.77.0.1:183", "listening on [address]:183"),
                ("GID[  1]: ::ffff:10.77.0.1, RoCE v2",
                 "GID[  1]: ::ffff:[address], RoCE v2"),
                ("GID[  0]: fe80::5054:ff:fe77:1, RoCE v2",
                 "GID[  0]: fe80:[...], RoCE v2"),
                ("gid fe80:0000:0000:0000:5054:00ff:fe77:0001",
                 "gid fe80:[...]"),
                ("node_guid: 5054:00ff:fe77:0001", "node_guid: 5054:[...]"),
                ("GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:02",
                 "GID: [address]"),
                ("link/ether 52:54:00:77:00:01 up", "link/ether [address] up"),
                ("to 2001:db8::8a2e:370:7334 now", "to [address] now")):
            self.assertEqual(nic_host.redacted(text), wanted)

    def test_versions_times_and_names_of_code_stay(self):
        for text in ("fw_ver: 20.31.1014", "44.0-2", "at 06:34:26",
                     "0000:3b:00.0", "verbena::base::Poll", "1.2.3"):
            self.assertEqual(nic_host.redacted(text), text)


class Commands(unittest.TestCase):

    def test_perftest_is_the_same_at_both_sides(self):
        with mock.patch.object(nic_serving.shutil, "which", lambda tool: tool):
            server = nic_serving.server_command(
                "ib_read_bw 4096", "bin", "rxe0", "10.0.0.1", 100, 50)
        self.assertEqual(server, nic_serving.perftest_command(
            "ib_read_bw", 4096, "rxe0", 100, 50))
        self.assertEqual(
            " ".join(server),
            "ib_read_bw -d rxe0 -F -R -s 4096 -n 50 -p 102 --report_gbits")

    def test_no_command_is_run_but_those_of_the_table(self):
        for name in ("sh", "ib_send_lat 63", "ib_send_lat 64; id", ""):
            with self.assertRaisesRegex(Failed, "there is no server"):
                nic_serving.server_command(name, "bin", "d", "1.1.1.1", 1, 9)
        serving = nic_serving.Serving("bin", "", 1)
        with self.assertRaises(ValueError):
            serving.start("grpc_peer", "1.1.1.1 --evil", 9)

    def test_a_program_that_was_not_built_is_named(self):
        with self.assertRaisesRegex(NotRun, "there is no bin/.*/grpc_peer"):
            nic_serving.server_command("grpc_peer", "bin", "d", "1.1.1.1", 1,
                                       9)

    def test_what_is_built_has_all_tests(self):
        self.assertIn(nic_proof.CONFORMANCE, nic_proof.targets())
        self.assertIn(nic_proof.between_hosts().label, nic_proof.targets())
        for label in nic_proof.QUICK_FILTERS:
            self.assertIn(label, nic_proof.targets())
        # Tests of the software device say nothing about a NIC.
        self.assertNotIn("//tests/conformance:conformance_tcp_test",
                         nic_proof.targets())
        self.assertTrue({each.label for each in nic_proof.entries(iwarp=True)}
                        <= set(nic_proof.targets()))

    def test_a_command_is_bounded(self):
        with self.assertRaisesRegex(Failed, "still ran after"):
            nic_host.run(["sh", "-c", "sleep 60 & sleep 60"], 0.2)
        with self.assertRaisesRegex(NotRun, "cannot start nothing"):
            nic_host.run(["/usr/bin/nothing"], 1)
        self.assertEqual(nic_host.run(["sh", "-c", "echo a; exit 3"], 9),
                         (3, "a\n", ""))


class Steps(unittest.TestCase):

    def setUp(self):
        self.count = {"1/hw_counters/sent_pkts": 1,
                      "1/hw_counters/rcvd_rnr_err": 0}
        mock.patch.object(nic_host, "counters",
                          lambda device: dict(self.count)).start()
        mock.patch("builtins.print").start()
        self.addCleanup(mock.patch.stopall)
        self.peer = mock.Mock()
        options = types.SimpleNamespace(peer="10.0.0.1", quick=True, port=100,
                                        bin_dir="/bin-dir", only="",
                                        iterations=100)
        self.proof = nic_proof.Proof(options, "10.0.0.2", "rxe0", self.peer)
        self.addCleanup(self.proof.scratch.cleanup)

    def result(self, function, **options):
        self.proof.step("s", 1, function, **options)
        step = self.proof.steps[-1]
        return step["result"], step["reason"].partition("\n")[0]

    def raising(self, error):
        return mock.Mock(side_effect=error)

    def test_results(self):
        self.assertEqual(self.result(lambda _: {"a": 1}), ("passed", ""))
        self.assertEqual(self.proof.steps[-1]["found"], {"a": 1})
        self.assertEqual(self.result(self.raising(Failed("so"))),
                         ("failed", "so"))
        self.assertEqual(self.result(self.raising(NotRun("why"))),
                         ("not run", "why"))
        self.assertEqual(self.result(self.raising(KeyError("p50_us"))),
                         ("failed", "nic-proof itself"))

    def test_only_what_is_named_runs(self):
        self.proof.options.only = "bench,ib_"
        for name in ("hosts", "transport_test", "rpc_bench --events",
                     "ib_read_bw", "counters after"):
            self.proof.step(name, 1, lambda _: {})
        self.assertEqual([step["name"] for step in self.proof.steps],
                         ["hosts", "rpc_bench --events", "ib_read_bw",
                          "counters after"])

    def test_counters_of_empty_receive_queues_fail_a_step(self):
        def grow(_):
            self.count["1/hw_counters/rcvd_rnr_err"] += 1
            self.count["1/hw_counters/sent_pkts"] += 1
            return {}
        self.assertEqual(self.result(grow), ("passed", ""))
        self.assertEqual(self.proof.steps[-1]["error counters"],
                         {"measuring": {"1/hw_counters/rcvd_rnr_err": 1}})
        result, reason = self.result(grow, no_rnr=True)
        self.assertEqual(result, "failed")
        self.assertIn("rcvd_rnr_err grew", reason)

    def test_without_the_other_side_its_steps_do_not_run(self):
        self.peer.hello.side_effect = ConnectionRefusedError(111, "refused")
        with mock.patch.object(nic_host, "facts", lambda device: {}):
            result, reason = self.result(self.proof.hosts)
        self.assertEqual(result, "failed")
        self.assertIn("does not answer", reason)
        self.assertEqual(
            self.result(lambda seconds: self.proof.perftest("ib_send_lat", 1)),
            ("not run", "the serving side did not answer"))

    def test_what_the_other_side_says_is_told(self):
        self.peer.start.side_effect = xmlrpc.client.Fault(
            1, "<class 'nic_host.NotRun'>:there is no ib_send_lat")
        self.proof.joined = True
        self.peer.counters.return_value = json.dumps({})
        self.assertEqual(
            self.result(lambda seconds: self.proof.perftest("ib_send_lat", 1)),
            ("not run", "the serving side: there is no ib_send_lat"))

    def test_a_failure_has_the_output_of_the_server(self):
        self.proof.joined = True
        self.peer.counters.return_value = json.dumps({})
        self.peer.stop.return_value = "no memory\n"
        self.result(lambda _: self.proof.served(
            "rpc_bench", self.raising(Failed("it ended"))))
        self.assertEqual(self.proof.steps[-1]["reason"],
                         "it ended\nthe server printed:\nno memory")

    def test_calls_that_take_long_are_measured_for_longer(self):
        durations = []

        def run(command, _seconds, _environment):
            durations.append(command[-1])
            if command[-1] != "--duration=3200ms":
                return 1, "", "cannot measure: " + nic_proof.TOO_SHORT
            return 0, '{"calls": 3}', ""

        with mock.patch.object(nic_host, "run", run):
            found = self.proof.calls("verbena_peer", 3, 400)
        self.assertEqual([row["calls"] for row in found["rows"]], [3, 3])
        self.assertEqual(durations, 2 * [
            "--duration=200ms", "--duration=800ms", "--duration=3200ms"])

    def test_other_failures_of_peers_are_final(self):
        run = mock.Mock(return_value=(1, "", "no server"))
        with mock.patch.object(nic_host, "run", run):
            result, _ = self.result(
                lambda seconds: self.proof.calls("verbena_peer", 3, seconds))
        self.assertEqual(result, "failed")
        self.assertEqual(run.call_count, 1)


class Sides(unittest.TestCase):
    """A client of the service, in one process."""

    def test_a_server_of_the_other_side_listens_until_it_is_stopped(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        program = shlex.join([sys.executable, "-uc",
                              "print('listening on {} now', flush=True);"
                              "import time; time.sleep(60)"])
        with mock.patch.object(nic_serving, "server_command",
                               lambda *_: ["sh", "-c", program]), \
             mock.patch.object(nic_host, "device_at", lambda *_: "rxe0"), \
             mock.patch("builtins.print"), \
             mock.patch.object(nic_serving.signal, "signal"):
            threading.Thread(target=nic_serving.serve,
                             args=("bin", "", port), daemon=True).start()
            peer = xmlrpc.client.ServerProxy("http://127.0.0.1:%d" % port)
            for _ in range(500):
                try:
                    self.assertTrue(peer.start("x", "127.0.0.1", 9))
                    break
                except ConnectionRefusedError:
                    threading.Event().wait(0.02)
            self.assertEqual(peer.stop(), "listening on {} now\n")
            self.assertEqual(peer.stop(), "")


class Report(unittest.TestCase):

    def test_perftests_tables_are_read(self):
        self.assertEqual(
            nic_report.perftest_row(LATENCIES),
            {"size_bytes": 64, "iterations": 100, "p50_us": 474.14,
             "mean_us": 1095.79, "p99_us": 9990.01})
        self.assertEqual(
            nic_report.perftest_row(BANDWIDTHS),
            {"size_bytes": 65536, "iterations": 1000, "bytes_per_s": 10e9,
             "messages_per_s": 152588.0})
        for output in ("", "Unable to Connect", LATENCIES.split("\n")[0],
                       " #bytes #iterations t_typical[usec]\n 64 words\n"):
            self.assertIsNone(nic_report.perftest_row(output))

    def step(self, name, **more):
        return {"name": name, "result": "passed", "reason": "", "seconds": 1.0,
                "found": {}, "error counters": {}, **more}

    def test_all_that_was_found_is_shown(self):
        case = {"layer": "rpc", "size_bytes": 4096, "outstanding": 1,
                "p50_us": 3.21, "p99_us": 9.5, "mean_us": 4.0,
                "calls_per_s": 100.0, "bytes_per_s": 409600.0}
        text = nic_report.markdown({"quick": True, "steps": [
            self.step("hosts", found={"measuring": {
                "kernel": "6.1", "ibv_devinfo -v": "hca_id:\n\tfw_ver"}}),
            self.step("conformance_test", result="failed",
                      reason="1 passed, 1 failed: A.B",
                      found={"failures": ["A.B: because"], "passed": 1,
                             "skipped": 0, "output": "the end"},
                      **{"error counters": {"serving": {"1/c/rnr": 2}}}),
            self.step("rdma_doctor", found={side: {
                "findings": [
                    {"check": "mtu", "level": "note", "seen": "1500",
                     "meaning": "slow", "mend": "mtu 4200"},
                    {"check": "ports", "level": "ok", "seen": "up",
                     "meaning": "", "mend": ""}],
                "measurements": []} for side in
                ("measuring", "measuring, to the peer")}),
            self.step("rpc_bench", found={"results": [case]}),
            self.step("ib_send_lat", found={"rows": [
                nic_report.perftest_row(LATENCIES)]}),
            self.step("ib_send_bw", result="not run", reason="none | there"),
            self.step("counters after",
                      found={"measuring": {"1/c/sent": 7}})]})
        for line in ("**5 steps passed, 1 failed, 1 did not run.**",
                     "| conformance_test | failed | 1.0 | 1 passed, 1 failed: "
                     "A.B |",
                     "| ib_send_bw | not run | 1.0 | none \\| there |",
                     "|  | 64 B | 4 KiB |",
                     "| rpc, polling |  | 3.21 (9.5), 4 |",
                     "| ib_send_lat | 474 (9990), 1096 |  |",
                     "| conformance_test | serving | 1/c/rnr | 2 |",
                     "| measuring | 1/c/sent | 7 |",
                     "| measuring | note | mtu | 1500 | slow: `mtu 4200` |",
                     "A.B: because", "the end", "| kernel | 6.1 |",
                     "hca_id:\n\tfw_ver"):
            self.assertEqual(text.count(line), 1, line)
        self.assertNotIn("| up |", text)

    def test_sizes_have_names(self):
        self.assertEqual([nic_report.size_name(each) for each in
                          (64, 1000, 4096, 1 << 20)],
                         ["64 B", "1000 B", "4 KiB", "1 MiB"])


if __name__ == "__main__":
    unittest.main()
