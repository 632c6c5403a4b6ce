#!/usr/bin/python3
"""Clients and servers of gRPC for Python, through verbena-gateway.

usage: python_peers.py GATEWAY PROBE_SERVER VERBENA

The three are programs; the folder that this runs in is the repository's, or
has its .proto files. Takes Debian's python3-grpcio and python3-protobuf, so it
is run by Debian's Python. Bazel's python_peers_test runs it.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import grpc

PROGRAMS = []
PROTOS = ["tools/gateway/probe.proto", "proto/grpc/health/v1/health.proto",
          "proto/grpc/reflection/v1/reflection.proto"]
SERVICE = "verbena.gateway.test.Probe"
TIMEOUT = 20


def generate():
    """Imports what protoc makes of PROTOS.

    Each is compiled by its bare name: the package grpc of its folder would hide
    gRPC's own.
    """
    folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    for proto in PROTOS:
        subprocess.run(["protoc", "-I" + os.path.dirname(proto),
                        "--python_out=" + folder, proto], check=True)
    sys.path.insert(0, folder)


def start(test, *command):
    """Runs a server until the test ends; returns where it listens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    test.addCleanup(stop, test, process)
    line = process.stdout.readline()
    test.assertTrue(line.startswith("listening on "), line)
    return line.split()[2]


def stop(test, process):
    process.terminate()
    test.assertIn(process.wait(timeout=TIMEOUT), (0, -15))
    process.stdout.close()


def method(channel, kind, name, reply):
    return getattr(channel, kind)(
        name if name.startswith("/") else "/%s/%s" % (SERVICE, name),
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=reply.FromString)


class PythonClient(unittest.TestCase):
    """Calls a server of Verbena."""

    def setUp(self):
        import probe_pb2
        self.note = probe_pb2.Note
        server = start(self, PROGRAMS[1])
        self.gateway = start(self, PROGRAMS[0], "--from=grpc://127.0.0.1:0",
                             "--to=verbena://" + server)
        self.channel = grpc.insecure_channel(self.gateway)
        self.addCleanup(self.channel.close)

    def method(self, kind, name):
        return method(self.channel, kind, name, self.note)

    def notes(self, *texts):
        return iter([self.note(text=text) for text in texts])

    def test_all_four_kinds(self):
        for _ in range(2):
            self.assertEqual(
                self.method("unary_unary", "Echo")(
                    self.note(text=b"one"), timeout=TIMEOUT).text, b"one")
        self.assertEqual(
            self.method("stream_unary", "Collect")(
                self.notes(b"one", b"two"), timeout=TIMEOUT).text, b"onetwo")
        self.assertEqual(
            [note.count for note in self.method("unary_stream", "Spread")(
                self.note(text=b"one", count=3), timeout=TIMEOUT)], [0, 1, 2])
        self.assertEqual(
            [note.text for note in self.method("stream_stream", "Chat")(
                self.notes(b"one", b"two"), timeout=TIMEOUT)],
            [b"one", b"two"])

    def test_metadata(self):
        _, call = self.method("unary_unary", "Echo").with_call(
            self.note(text=b"one"), timeout=TIMEOUT,
            metadata=[("x-sent", "a word"), ("x-sent-bin", b"\x00\xff")])
        self.assertIn(("x-initial", "a word"), call.initial_metadata())
        self.assertIn(("x-trailing-bin", b"\x00\xff"),
                      call.trailing_metadata())

    def test_a_status_and_its_details(self):
        with self.assertRaises(grpc.RpcError) as raised:
            self.method("unary_unary", "Echo")(self.note(text=b"fail"),
                                               timeout=TIMEOUT)
        error = raised.exception
        self.assertEqual(error.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(error.details(), "not now: 50 % \n done")
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        self.assertIn(b"type.googleapis.com/verbena.gateway.test.Note", details)

    def test_a_deadline_and_a_cancellation(self):
        asked = threading.Event()

        def ask():
            yield self.note(text=b"word")
            asked.wait(TIMEOUT)

        self.addCleanup(asked.set)
        call = self.method("stream_stream", "Chat")(ask(), timeout=0.3)
        self.assertEqual(next(call).text, b"word")
        with self.assertRaises(grpc.RpcError):
            next(call)
        self.assertEqual(call.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        call = self.method("stream_stream", "Chat")(ask(), timeout=TIMEOUT)
        self.assertEqual(next(call).text, b"word")
        call.cancel()
        self.assertEqual(call.code(), grpc.StatusCode.CANCELLED)

    def test_health(self):
        import health_pb2
        check = method(self.channel, "unary_unary",
                       "/grpc.health.v1.Health/Check",
                       health_pb2.HealthCheckResponse)
        request = health_pb2.HealthCheckRequest(service=SERVICE)
        self.assertEqual(check(request, timeout=TIMEOUT).status, 1)
        watch = method(self.channel, "unary_stream",
                       "/grpc.health.v1.Health/Watch",
                       health_pb2.HealthCheckResponse)(request, timeout=TIMEOUT)
        self.assertEqual(next(watch).status, 1)
        watch.cancel()

    def test_reflection_of_both_versions(self):
        import reflection_pb2
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        for version in "v1", "v1alpha":
            replies = list(method(
                self.channel, "stream_stream",
                "/grpc.reflection.%s.ServerReflection/ServerReflectionInfo" %
                version, reflection_pb2.ServerReflectionResponse)(
                    iter([request]), timeout=TIMEOUT))
            names = [service.name for service in
                     replies[0].list_services_response.service]
            self.assertIn(SERVICE, names, version)

    def test_a_verbena_tool_behind_two_gateways(self):
        chain = start(self, PROGRAMS[0], "--from=verbena://127.0.0.1:0",
                      "--to=grpc://" + self.gateway)
        listed = subprocess.run([PROGRAMS[2], "list", chain],
                                stdout=subprocess.PIPE, text=True, check=True)
        self.assertIn(SERVICE, listed.stdout)


class PythonServer(unittest.TestCase):
    """Is called by a client of Verbena: the program verbena."""

    def setUp(self):
        import probe_pb2
        self.note = probe_pb2.Note
        self.metadata = []
        pool = concurrent.futures.ThreadPoolExecutor(max_workers=4)
        self.addCleanup(pool.shutdown)
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((self.handlers(),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait(TIMEOUT))
        self.address = start(self, PROGRAMS[0], "--from=verbena://127.0.0.1:0",
                             "--to=grpc://127.0.0.1:%d" % port)

    def handlers(self):
        def handler(kind, function):
            return getattr(grpc, kind + "_rpc_method_handler")(
                function, request_deserializer=self.note.FromString,
                response_serializer=lambda note: note.SerializeToString())

        return grpc.method_handlers_generic_handler(SERVICE, {
            "Echo": handler("unary_unary", self.echo),
            "Collect": handler("stream_unary", self.collect),
            "Spread": handler("unary_stream", self.spread),
            "Chat": handler("stream_stream", lambda notes, _: notes),
        })

    def echo(self, note, context):
        self.metadata = context.invocation_metadata()
        if note.text == b"fail":
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "it is there")
        if note.text == b"wait":
            ended = threading.Event()
            context.add_callback(ended.set)
            ended.wait(TIMEOUT)
        return note

    def collect(self, notes, _):
        return self.note(text=b"".join(note.text for note in notes))

    def spread(self, note, _):
        for i in range(note.count):
            yield self.note(text=note.text, count=i)

    def call(self, name, data, *flags):
        return subprocess.run(
            [PROGRAMS[2], "call", self.address, "%s/%s" % (SERVICE, name),
             "--proto=" + PROTOS[0], "--data=-", *flags], input=data,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False)

    def test_all_four_kinds(self):
        # Bytes are base64 in JSON: "b25l" is "one", "dHdv" is "two".
        one = '{"text":"b25l"}\n'
        two = '{"text":"dHdv"}\n'
        for name, data, texts in (
                ("Echo", one, ["b25l"]),
                ("Collect", one + two, ["b25ldHdv"]),
                ("Spread", '{"text":"b25l","count":3}', ["b25l"] * 3),
                ("Chat", one + two, ["b25l", "dHdv"])):
            ran = self.call(name, data)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            found = [line.split('"')[3] for line in ran.stdout.splitlines()
                     if '"text"' in line]
            self.assertEqual(found, texts, name)

    def test_metadata_and_a_status(self):
        ran = self.call("Echo", '{"text":"ZmFpbA=="}', "--metadata=x-key:value")
        self.assertEqual(ran.returncode, 64 + 6, ran.stderr)
        self.assertIn("ALREADY_EXISTS: it is there", ran.stderr)
        self.assertIn(("x-key", "value"), self.metadata)

    def test_a_deadline(self):
        ran = self.call("Echo", '{"text":"d2FpdA=="}', "--timeout=300ms")
        self.assertEqual(ran.returncode, 64 + 4, ran.stderr)


class CommandLine(unittest.TestCase):

    def refused(self, *arguments):
        ran = subprocess.run([PROGRAMS[0], *arguments], stderr=subprocess.PIPE,
                             text=True, check=False, timeout=TIMEOUT)
        self.assertEqual(ran.returncode, 2)
        return ran.stderr

    def test_what_is_wrong_is_said(self):
        self.assertIn("of one kind", self.refused("--from=grpc://127.0.0.1:0",
                                                  "--to=grpc://127.0.0.1:1"))
        self.assertIn("begins with neither", self.refused())
        self.assertIn("unexpected argument word", self.refused("word"))
        self.assertIn("unknown flag --form", self.refused("--form=grpc://a:1"))
        self.assertIn("the port is missing", self.refused(
            "--from=grpc://127.0.0.1", "--to=verbena://127.0.0.1:1"))
        self.assertIn("it has a scheme", self.refused(
            "--from=grpc://127.0.0.1:0", "--to=verbena://dns:///host:1"))
        self.assertIn("--grace is negative", self.refused("--grace=-1s"))


if __name__ == "__main__":
    PROGRAMS[:] = sys.argv[1:4]
    generate()
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
