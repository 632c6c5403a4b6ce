"""Closing a program ends its children, too."""

import socket
import unittest

import lines
import pair

# Listens and forks: the child keeps the listening socket, as in a server with
# a process for each client.
SERVER_WITH_CHILD = """python3 -c '
import os, socket, time
listener = socket.create_server(("127.0.0.1", %d))
os.fork()
time.sleep(600)'"""


class Close(unittest.TestCase):

    def test_ends_children_and_frees_their_ports(self):
        port = self.free_port()
        side = pair.Side("soft0", "127.0.0.1")
        program = pair.Program(side, SERVER_WITH_CHILD % port, side)
        line = lines.Line("server", client="", port=port)
        pair.await_ready(line, program.process, deadline=float("inf"))
        program.close()
        socket.create_server(("127.0.0.1", port)).close()

    def free_port(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return listener.getsockname()[1]


if __name__ == "__main__":
    unittest.main()
