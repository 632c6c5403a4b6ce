#!/usr/bin/env python3
"""The status page in a browser, of a server under load.

usage: browser_test.py [--screenshots=FOLDER] BUSY_SERVER

Takes Debian's chromium. With --screenshots it only makes pictures of the page,
light and dark, wide and narrow, for somebody to look at.
"""

import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

PROGRAM = []
PAGE = "rpc/services/admin/page.html"
TIMEOUT_S = 120
EVIL = "<img src=x onerror=document.title='evil'>"


class BusyServer:
    """The server, from `with` to its end."""

    def __enter__(self):
        self._process = subprocess.Popen(
            PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise AssertionError("the server said %r, and no address" % line)
        self.url = found.group(0)
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        status = self._process.wait(TIMEOUT_S)
        self._process.stdout.close()
        if status != 0:
            raise AssertionError("the server ended with status %d" % status)


class StandIn:
    """Serves the page, and documents one after the other; then errors."""

    def __init__(self, documents):
        documents = list(documents)

        class Handler(http.server.BaseHTTPRequestHandler):
            """As the server answers, as far as the page sees it."""

            def do_GET(self):  # pylint: disable=invalid-name
                if self.path == "/":
                    with open(PAGE, "rb") as file:
                        self._answer(200, "text/html", file.read())
                elif documents:
                    self._answer(200, "application/json",
                                 json.dumps(documents.pop(0)).encode())
                else:
                    self._answer(500, "text/plain", b"")

            def _answer(self, status, kind, body):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                       Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self):
        self._thread.start()
        self.url = "http://127.0.0.1:%d/" % self._server.server_address[1]
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def browse(url, *options, virtual_s=8):
    """Shows the page for so many seconds of its own clock, which passes as fast
    as the server answers. Returns what chromium prints, and says."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu",
             "--hide-scrollbars", "--disable-dev-shm-usage",
             "--user-data-dir=" + profile, "--enable-logging=stderr",
             "--virtual-time-budget=%d" % (virtual_s * 1000)] +
            list(options) + [url],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", timeout=TIMEOUT_S, check=True,
            env=dict(os.environ, HOME=profile))
        return done.stdout, done.stderr


def row_of(page, method):
    """The texts of the cells behind a method's name, in its row."""
    found = re.search("<tr><td[^>]*><span>%s<.*?</tr>" % re.escape(method),
                      page)
    if found is None:
        return None
    cells = re.findall("<td[^>]*>(.*?)</td>", found.group(0))
    return [re.sub("<[^>]*>", "", cell) for cell in cells[1:]]


def number(text):
    """3700 of "3.70 k"."""
    value, _, unit = text.partition(" ")
    return float(value) * {"": 1, "k": 1e3, "M": 1e6}[unit]


def document(url):
    """What the page would ask for."""
    with urllib.request.urlopen(url + "status.json", timeout=20) as answer:
        return json.load(answer)


class BrowserTest(unittest.TestCase):
    """What a reader sees."""

    def check_console(self, said):
        """The page has nothing to complain about."""
        lines = [line for line in said.splitlines() if "CONSOLE" in line]
        self.assertEqual(lines, [])

    def test_shows_a_server_under_load(self):
        with BusyServer() as server:
            page, said = browse(server.url, "--dump-dom")
        self.check_console(said)
        row = row_of(page, "verbena.end_to_end.EndToEnd/Echo")
        self.assertIsNotNone(row, page)
        rate, _, _, median = row[:4]
        self.assertGreater(number(rate), 0, row)
        self.assertRegex(median, r"^[\d.]+ (\u00b5s|ms|s)$")
        row = row_of(page, "verbena.end_to_end.EndToEnd/Fail")
        self.assertIn("NOT_FOUND", row[-1])
        self.assertGreater(number(row[6]), 0, row)
        self.assertRegex(page, "EndToEnd/Block</td><td class=\"n\">[^<]+</td>"
                               "<td>at its handler</td>")
        self.assertIn(">serves</span>", page)
        self.assertRegex(page, "<div id=\"gone\"[^>]* hidden")
        self.assertEqual(page.count("<small>5</small>"), 1)  # Connections.
        rows = re.findall("<tr><td[^>]*>service</td>.*?</tr>", page)
        self.assertEqual(len(rows), 3, page)  # The channel, its two servers.
        self.assertIn(">READY</span>", rows[0])
        self.assertRegex(rows[1], ">127.0.0.1:1</td>.*TRANSIENT_FAILURE")
        self.assertIn(">READY</span>", rows[2])

    def test_shows_what_is_wrong_with_servers(self):
        with BusyServer() as server:
            told = document(server.url)
        channel = told["channels"][0]
        fit = dict(channel["servers"][0], state="READY", connected=True,
                   address="fit:1", weight=3)
        channel["servers"] = [
            fit, dict(fit, address="ill:1", healthy=False, ejected=True),
            dict(fit, address="by_load:1", load_weight=1234.56)]
        with StandIn([told] * 100) as server:
            page, said = browse(server.url, "--dump-dom")
        self.check_console(said)
        ill, fit, by_load = re.findall(
            r"<td>\w+:1</td><td>(<span[^>]*>[^<]*</span>)</td>"
            r"<td class=\"n\">([^<]*)</td>", page)
        self.assertEqual(ill[0], "<span class=\"warn\">READY, not healthy, "
                                 "ejected</span>")
        self.assertEqual(fit, ("<span>READY</span>", "3"))
        self.assertEqual(by_load, ("<span>READY</span>", "1235 by load"))

    def test_shows_nothing_where_there_are_no_channels(self):
        with BusyServer() as server:
            told = document(server.url)
        none = dict(told, channels=[], channel_count=0)
        for documents, hidden in [([told, none], True), ([none, told], False)]:
            with StandIn([documents[0]] + [documents[1]] * 100) as server:
                page, said = browse(server.url, "--dump-dom")
            self.check_console(said)
            for part in ["h-channels", "h-servers"]:
                tag = re.search("<section[^>]*\"%s\"[^>]*>" % part, page)
                self.assertEqual(" hidden" in tag.group(0), hidden, tag)

    def test_says_that_the_server_is_gone(self):
        with BusyServer() as server:
            told = document(server.url)
        with StandIn([told, told]) as server:
            page, _ = browse(server.url, "--dump-dom")
        self.assertIn("The server is gone", page)
        self.assertNotRegex(page, "<div id=\"gone\"[^>]* hidden")
        self.assertIn("EndToEnd/Echo", page)

    def test_names_are_never_more_than_text(self):
        with BusyServer() as server:
            told = document(server.url)
        told["methods"][0]["name"] = EVIL
        for listed in ["open_calls", "connections"]:
            told[listed][0]["peer"] = EVIL
        told["open_calls"][0]["method"] = EVIL
        channel = told["channels"][0]
        for key in ["name", "target", "state", "device", "fabric_reason"]:
            channel[key] = EVIL
        for key in ["address", "state", "device", "fabric", "error"]:
            channel["servers"][0][key] = EVIL
        told["host"] = told["version"] = EVIL
        told["log"].append({"time_ms": 0, "warning": True, "text": EVIL})
        told["incomplete"] = True
        with StandIn([told] * 100) as server:
            page, said = browse(server.url, "--dump-dom")
        self.check_console(said)
        self.assertIn(">a poller does not answer</span>", page)
        self.assertNotIn("<img", page)
        self.assertNotIn("<title>evil", page)
        self.assertGreaterEqual(page.count("&lt;img src=x"), 18)

    def test_counts_anew_when_another_server_answers(self):
        with BusyServer() as server:
            first = document(server.url)
        second = json.loads(json.dumps(first))
        second.update(process_id=first["process_id"] + 1,
                      now_ms=first["now_ms"] + 1000)
        for method in second["methods"]:
            method.update(started=0, ended={}, open=0)
        with StandIn([first] + [second] * 100) as server:
            page, said = browse(server.url, "--dump-dom")
        self.check_console(said)
        row = row_of(page, "verbena.end_to_end.EndToEnd/Echo")
        self.assertEqual(number(row[0]), 0, row)


def take_screenshots(folder):
    """Pictures of all that the page can look like."""
    os.makedirs(folder, exist_ok=True)
    with BusyServer() as server:
        for width, height in [(1600, 1900), (400, 4000)]:
            for scheme, value in [("dark", 0), ("light", 1)]:
                name = os.path.join(folder, "%s-%d.png" % (scheme, width))
                browse(server.url, "--screenshot=" + name,
                       "--window-size=%d,%d" % (width, height),
                       "--blink-settings=preferredColorScheme=%d" % value,
                       virtual_s=60)
                print(name)


def main():
    """Tests, or takes pictures."""
    arguments = sys.argv[1:]
    folder = None
    if arguments and arguments[0].startswith("--screenshots="):
        folder = arguments.pop(0).partition("=")[2]
    if len(arguments) != 1:
        sys.exit(__doc__)
    PROGRAM.append(arguments[0])
    if folder is not None:
        take_screenshots(folder)
    else:
        unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    main()
