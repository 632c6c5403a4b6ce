"""with_server.py passes only if both ends did what they should."""

import subprocess
import sys
import unittest
from os import path

TOOL = path.join(path.dirname(path.abspath(__file__)), "with_server.py")

GOOD = "trap 'exit 0' TERM; echo listening on 1.2.3.4:5 via x; %s" % (
    "while :; do read -t 1 <> <(:) || :; done")


def run(server, *client, timeout="--timeout=20"):
    return subprocess.run(
        [sys.executable, TOOL, timeout, "--", "bash", "-c", server, "--"] +
        list(client), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, timeout=60)


class WithServer(unittest.TestCase):

    def test_the_client_learns_the_address(self):
        ran = run(GOOD, "echo", "to {address}")
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("to 1.2.3.4:5\n", ran.stdout)
        self.assertIn("server | listening on", ran.stdout)

    def test_the_status_is_the_clients(self):
        self.assertEqual(run(GOOD, "bash", "-c", "exit 7").returncode, 7)

    def test_a_server_that_dies_before_it_listens(self):
        ran = run("exit 3", "true")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("status 3 before it listened", ran.stdout)

    def test_a_server_that_ends_badly(self):
        ran = run(GOOD.replace("exit 0", "exit 4"), "true")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("status 4 after SIGTERM", ran.stdout)

    def test_a_client_that_never_ends(self):
        ran = run(GOOD, "sleep", "50", timeout="--timeout=0.3")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("the client still ran", ran.stdout)

    def test_programs_that_do_not_exist(self):
        self.assertEqual(run(GOOD, "/nonexistent").returncode, 1)


if __name__ == "__main__":
    unittest.main()
