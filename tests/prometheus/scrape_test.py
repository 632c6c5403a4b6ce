#!/usr/bin/env python3
"""What a server exports, as promtool and a Prometheus server see it.

usage: scrape_test.py COUNTED_SERVER

Takes promtool and prometheus of Debian's package of that name, which `./dev
test` unpacks into .prometheus/ of this repository. The Prometheus server is one
of our own, with its data in a folder that goes with the test.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
TOOLS = os.path.join(HERE, "..", "..", ".prometheus", "usr", "bin")
PROGRAM = []
TIMEOUT_S = 120
ECHOES = 40
FAILURES = 3
CONFIG = """
global:
  scrape_interval: 200ms
  scrape_timeout: 200ms
scrape_configs:
  - job_name: verbena
    static_configs:
      - targets: ["%s"]
"""


def fetch(url):
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return answer.read().decode()


class CountedServer:
    """The server, from `with` to its end."""

    def __enter__(self):
        self._process = subprocess.Popen(
            [*PROGRAM, str(ECHOES), str(FAILURES)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.url = self._process.stdout.readline().strip()
        if not self.url.startswith("http://"):
            raise AssertionError("the server said %r" % self.url)
        return self

    def __exit__(self, *_):
        self._process.communicate()
        if self._process.returncode != 0:
            raise AssertionError(
                "the server ended with status %d" % self._process.returncode)


class Prometheus:
    """A Prometheus server that scrapes one target, from `with` to its end."""

    def __init__(self, url):
        self._target = urllib.parse.urlparse(url).netloc

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="verbena-prometheus-")
        config = os.path.join(self._folder.name, "prometheus.yml")
        with open(config, "w") as stream:
            stream.write(CONFIG % self._target)
        self._log = os.path.join(self._folder.name, "log")
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                [os.path.join(TOOLS, "prometheus"), "--config.file=" + config,
                 "--storage.tsdb.path=" + self._folder.name + "/data",
                 "--web.listen-address=127.0.0.1:0"],
                stdout=log, stderr=subprocess.STDOUT)
        self._api = "http://%s/api/v1/query?" % self._await_address()
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(TIMEOUT_S)
        self._folder.cleanup()

    def _read_log(self):
        with open(self._log) as stream:
            return stream.read()

    def _await_address(self):
        """Port 0 is any free one, which it tells in its log; it answers with
        an error until it says that it is ready."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            log = self._read_log()
            found = re.search(r'msg="Listening on" address=(\S+)', log)
            if found and "Server is ready" in log:
                return found.group(1)
            time.sleep(0.05)
        raise AssertionError("prometheus is not ready:\n" + self._read_log())

    def query(self, expression):
        """Its value, once there is one."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            answer = json.loads(fetch(
                self._api + urllib.parse.urlencode({"query": expression})))
            if answer["data"]["result"]:
                (series,) = answer["data"]["result"]
                return float(series["value"][1])
            time.sleep(0.1)
        raise AssertionError("%s has no value:\n%s" % (expression,
                                                       self._read_log()))


class ScrapeTest(unittest.TestCase):

    def test_promtool_has_nothing_to_say(self):
        with CountedServer() as server:
            text = fetch(server.url)
        self.assertIn("verbena_server_calls_ended_total{", text)
        checked = subprocess.run(
            [os.path.join(TOOLS, "promtool"), "check", "metrics"], input=text,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        # prometheus-cpp's Exposer has metrics of its own, which are not ours to
        # name.
        found = [line for line in checked.stdout.splitlines()
                 if not line.startswith("exposer_")]
        self.assertEqual(found, [])

    def test_prometheus_has_what_was_counted(self):
        echo = 'method="verbena.end_to_end.EndToEnd/Echo"'
        fail = 'method="verbena.end_to_end.EndToEnd/Fail"'
        with CountedServer() as server, Prometheus(server.url) as prometheus:
            for side in ("server", "client"):
                ended = "verbena_%s_calls_ended_total{%%s,code=%%s}" % side
                self.assertEqual(
                    prometheus.query(ended % (echo, '"OK"')), ECHOES)
                self.assertEqual(
                    prometheus.query(ended % (fail, '"NOT_FOUND"')), FAILURES)
                self.assertEqual(prometheus.query(
                    "verbena_%s_request_bytes_total{%s}" % (side, echo)),
                    ECHOES * 100)
                duration = "verbena_%s_call_duration_seconds" % side
                self.assertEqual(prometheus.query(
                    "%s_count{%s}" % (duration, echo)), ECHOES)
                median = prometheus.query(
                    "histogram_quantile(0.5, %s_bucket{%s})" % (duration, echo))
                self.assertGreater(median, 0)
                self.assertLess(median, 17.2)
            self.assertEqual(prometheus.query(
                'sum(verbena_server_connections{state="open"})'), 1)


if __name__ == "__main__":
    PROGRAM = [sys.argv.pop(1)]
    unittest.main()
