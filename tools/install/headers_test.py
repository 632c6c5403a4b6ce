"""Which headers are installed, and what becomes of their names."""

import tempfile
import unittest

import headers


class Names(unittest.TestCase):

    def test_nothing_lands_where_sun_rpc_is(self):
        self.assertEqual(headers.installed_name("rpc/rpc.h"), "verbena/rpc.h")
        self.assertEqual(headers.installed_name("rpc/support/stub_support.h"),
                         "verbena/support/stub_support.h")
        self.assertEqual(headers.installed_name("transport/base/gate.h"),
                         "verbena/internal/transport/base/gate.h")

    def test_what_grpc_has_named_keeps_its_name(self):
        name = "grpc/health/v1/health.verbena.h"
        self.assertEqual(headers.installed_name(name), name)

    def test_generated_headers_have_the_name_they_are_included_by(self):
        with tempfile.NamedTemporaryFile("w") as stream:
            stream.write(
                "rpc/channel.h\n"
                "bazel-out/k8-opt/bin/p/_virtual_imports/x_proto/g/x.pb.h\n"
                "bazel-out/k8-opt/bin/p/_virtual_includes/x_proto/g/x.pb.h\n"
                "bazel-out/k8-opt/bin/p/_verbena/x/g/x.verbena.h\n")
            stream.flush()
            files = headers.read_list([stream.name])
        self.assertEqual(sorted(files),
                         ["g/x.pb.h", "g/x.verbena.h", "rpc/channel.h"])
        self.assertIn("_virtual_imports", files["g/x.pb.h"])


class Closure(unittest.TestCase):

    TEXTS = {
        "rpc/channel.h":
            '// As rpc/server.h, not rpc/internal/client/open_call.h.\n'
            '#include "rpc/server.h"\n#include "absl/status/status.h"\n',
        "rpc/server.h": '#include "transport/base/mutex.h"  // Kept.\n',
        "rpc/internal/client/open_call.h": '#include "rpc/channel.h"\n',
        "transport/base/mutex.h": "\n",
        "transport/base/limits.h": "\n",
    }

    def installed(self):
        found = headers.closure({name: name for name in self.TEXTS},
                                self.TEXTS.get)
        return headers.rewrite(found)

    def test_has_what_public_headers_include_and_no_more(self):
        self.assertEqual(sorted(self.installed()), [
            "verbena/channel.h", "verbena/internal/transport/base/mutex.h",
            "verbena/server.h"])

    def test_includes_and_comments_are_rewritten(self):
        installed = self.installed()
        self.assertEqual(
            installed["verbena/channel.h"],
            '// As verbena/server.h, not rpc/internal/client/open_call.h.\n'
            '#include "verbena/server.h"\n#include "absl/status/status.h"\n')
        self.assertEqual(
            installed["verbena/server.h"],
            '#include "verbena/internal/transport/base/mutex.h"  // Kept.\n')


if __name__ == "__main__":
    unittest.main()
