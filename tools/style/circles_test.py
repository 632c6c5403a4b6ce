"""No circles of includes, and that the check can fail."""

import unittest

import circles
from style_case import StyleCase


class Repository(StyleCase):

    def test_no_new_circle_of_includes(self):
        self.assert_clean(circles.check_circles)

    def test_known_circles_only_shrink(self):
        self.assert_clean(circles.check_known)


class Circles(StyleCase):

    def test_finds_a_circle_by_the_cc_file(self):
        self.assert_finds(circles.check_circles, "transport/wire/a_steps.cc",
                          '#include "transport/wire/b.h"\n',
                          "transport/wire/a, transport/wire/b",
                          {"transport/wire/a.h": "",
                           "transport/wire/b.h":
                           '#include "transport/wire/a.h"\n'})

    def test_accepts_one_direction(self):
        self.assert_accepts(circles.check_circles, "transport/wire/a.h",
                            '#include "transport/wire/b.h"\n',
                            {"transport/wire/b.h": ""})

    def test_tests_may_include_anything(self):
        self.assert_accepts(circles.check_circles, "transport/wire/a_test.cc",
                            '#include "transport/wire/b.h"\n',
                            {"transport/wire/a.h": "",
                             "transport/wire/b.h":
                             '#include "transport/wire/a.h"\n'})


if __name__ == "__main__":
    unittest.main()
