"""The order of layers in this repository, and that its checks can fail."""

import unittest

import layers
from style_case import StyleCase


class Repository(StyleCase):

    def test_folders_include_only_what_stands_below(self):
        self.assert_clean(layers.check_layers)

    def test_soft_device_is_chosen_in_one_place(self):
        self.assert_clean(layers.check_soft_is_chosen_in_one_place)

    def test_verbs_headers_stay_in_the_transport(self):
        self.assert_clean(layers.check_verbs_headers)

    def test_internal_headers_stay_in_rpc(self):
        self.assert_clean(layers.check_internal_headers)

    def test_nothing_depends_on_tests(self):
        self.assert_clean(layers.check_tests_are_leaves)

    def test_public_headers_are_few(self):
        self.assert_clean(layers.check_public_closure)

    def test_public_headers_are_for_users(self):
        self.assert_clean(layers.check_public_headers_are_for_users)

    def test_every_folder_of_code_has_a_layer(self):
        lost = sorted({source.folder for source in self.repository().cpp()
                       if layers.layer_of(source.path) is None})
        self.assertEqual(lost, [], "folders without a layer: %s" % lost)


class Layers(StyleCase):

    def test_finds_what_is_for_the_library(self):
        check = layers.check_public_headers_are_for_users
        text = "  // For the library. Null if there is none.\n"
        self.assert_finds(check, "rpc/channel.h", text, "users read this")
        self.assert_accepts(check, "rpc/support/stub_support.h", text)

    def test_refuses_a_layer_above(self):
        self.assert_finds(layers.check_layers, "transport/wire/frame.h",
                          '#include "transport/polling/poller.h"\n',
                          "transport/wire may not include transport/polling")

    def test_refuses_a_neighbour_that_is_not_listed(self):
        self.assert_finds(layers.check_layers, "transport/wire/frame.cc",
                          '#include "transport/memory/buffer.h"\n',
                          "may include only: transport/base, transport/wire")

    def test_connection_never_sees_soft(self):
        self.assert_finds(layers.check_layers, "transport/session/a.cc",
                          '#include "transport/soft/base/engine.h"\n',
                          "may not include transport/soft")

    def test_a_room_of_the_software_device_includes_only_those_before_it(self):
        up = '#include "transport/soft/verbs/verbs_table.h"\n'
        self.assert_finds(layers.check_layers, "transport/soft/queues/a.cc", up,
                          "transport/soft/queues may not include "
                          "transport/soft/verbs")
        self.assert_accepts(layers.check_layers,
                            "transport/soft/queues/a_test.cc", up)
        self.assert_finds(layers.check_layers, "transport/soft/datagram/a.cc",
                          '#include "transport/soft/connected/requester.h"\n',
                          "may not include transport/soft/connected")
        self.assert_accepts(layers.check_layers, "transport/soft/queues/a.cc",
                            '#include "transport/soft/link/link.h"\n')

    def test_public_headers_do_not_show_internals_but_their_cc_may(self):
        include = '#include "rpc/internal/client/channel_impl.h"\n'
        self.assert_finds(layers.check_layers, "rpc/channel.h", include,
                          "rpc may not include rpc/internal/client")
        self.assert_accepts(layers.check_layers, "rpc/channel.cc", include)

    def test_accepts_what_stands_below(self):
        self.assert_accepts(layers.check_layers, "transport/session/a.cc",
                            '#include "transport/wire/frame.h"\n'
                            '#include "absl/status/status.h"\n')

    def test_a_test_may_reach_down_but_not_up(self):
        path = "transport/session/a_test.cc"
        self.assert_accepts(layers.check_layers, path,
                            '#include "transport/soft/base/engine.h"\n')
        self.assert_finds(layers.check_layers, path,
                          '#include "rpc/channel.h"\n', "may not include rpc")

    def test_an_include_in_a_comment_is_none(self):
        self.assert_accepts(layers.check_layers, "transport/base/a.h",
                            '// #include "rpc/channel.h"\n')


class SideLaws(StyleCase):

    def test_only_device_cc_includes_soft(self):
        check = layers.check_soft_is_chosen_in_one_place
        include = '#include "transport/soft/soft_provider.h"\n'
        self.assert_finds(check, "transport/endpoint.cc", include,
                          "only transport/device.cc")
        for path in ("transport/device.cc", "transport/soft/base/engine.cc",
                     "transport/endpoint_test.cc"):
            self.assert_accepts(check, path, include)

    def test_verbs_headers_end_at_the_transport(self):
        check = layers.check_verbs_headers
        for include in ("#include <infiniband/verbs.h>\n",
                        "#include <rdma/rdma_cma.h>\n"):
            for path in ("rpc/channel.h", "tools/rpc_bench/main.cc",
                         "examples/hello/client.cc"):
                self.assert_finds(check, path, include, "belongs to transport/")
            self.assert_accepts(check, "transport/memory/a.h", include)

    def test_internal_headers_are_for_rpc(self):
        include = '#include "rpc/internal/call_table.h"\n'
        self.assert_finds(layers.check_internal_headers, "examples/a/b.cc",
                          include, "rpc/internal is for rpc/ only")
        self.assert_accepts(layers.check_internal_headers, "tests/a_test.cc",
                            include)

    def test_nothing_that_ships_includes_tests(self):
        include = '#include "tests/testing/status_matchers.h"\n'
        self.assert_finds(layers.check_tests_are_leaves, "rpc/channel.cc",
                          include, "nothing but a test includes tests/")
        self.assert_accepts(layers.check_tests_are_leaves,
                            "rpc/channel_test.cc", include)


class PublicClosure(StyleCase):

    def test_counts_headers_reached_through_others(self):
        texts = {"rpc/rpc.h": '#include "rpc/h0.h"\n'}
        for i in range(layers.PUBLIC_HEADERS_MAX):
            texts["rpc/h%d.h" % i] = '#include "rpc/h%d.h"\n' % (i + 1)
        problems = self.found(layers.check_public_closure, texts)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn("%d headers" % (layers.PUBLIC_HEADERS_MAX + 1),
                      problems[0])

    def test_counts_lines(self):
        text = "\n" * (layers.PUBLIC_LINES_MAX + 1)
        self.assert_finds(layers.check_public_closure, "rpc/rpc.h", text,
                          "%d lines" % (layers.PUBLIC_LINES_MAX + 1))

    def test_refuses_a_verbs_header_behind_a_header(self):
        self.assert_finds(layers.check_public_closure, "rpc/rpc.h",
                          '#include "transport/a.h"\n',
                          "<infiniband/verbs.h> is in the public closure",
                          {"transport/a.h": "#include <infiniband/verbs.h>\n"})

    def test_the_public_header_must_exist(self):
        self.assert_finds(layers.check_public_closure, "README.md", "",
                          "the public header is missing")


if __name__ == "__main__":
    unittest.main()
