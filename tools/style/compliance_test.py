"""The table of promises in this repository, and that its check can fail."""

import unittest

import compliance
from style_case import StyleCase

HEAD = "| call | here | shown by |\n|---|---|---|\n"
ROW = "| `ibv_open_device` | honoured | `fork_test: AChild` |\n"
OTHERS = {
    compliance.EXPORTS + "devices.cc":
        'int ibv_helper() {}\nextern "C" {\nibv_context* ibv_open_device('
        "ibv_device* device) {\n  return next_ibv_close_device(device);\n}\n",
    "transport/soft/fork_test.cc": "TEST(Fork, AChild) {}\n",
    compliance.PROGRAMS: '_pingpong("rc")\n',
}


class Repository(StyleCase):

    def test_compliance(self):
        self.assert_clean(compliance.check_compliance)


class Compliance(StyleCase):

    def finds(self, text, message):
        self.assert_finds(compliance.check_compliance, compliance.TABLE,
                          HEAD + text, message, OTHERS)

    def test_what_is_right_is_accepted(self):
        self.assert_accepts(compliance.check_compliance, compliance.TABLE,
                            HEAD + ROW + ROW.replace("fork_test: AChild",
                                                     "run_lines: rc"), OTHERS)

    def test_what_is_wrong_is_found(self):
        self.finds("", "ibv_open_device has no row")
        self.finds(ROW.replace("honoured", ""), "an empty cell")
        self.finds(ROW.replace("`fork_test: AChild`", "trust me"), "no test")
        self.finds(ROW.replace("AChild", "AChil"), "no test AChil")
        self.finds(ROW.replace("fork_test", "spoon_test"), "in spoon_test")
        self.finds(ROW.replace("fork_test: AChild", "run_lines: uc"), "uc")


if __name__ == "__main__":
    unittest.main()
