"""Comments in this repository, and that each check can fail."""

import unittest

import comments
from style_case import StyleCase

_FULL = "// " + "word " * 15  # 78 columns.


class Repository(StyleCase):

    def test_no_orphans(self):
        self.assert_clean(comments.check_orphans)

    def test_no_moved_values(self):
        self.assert_clean(comments.check_moved_values)

    def test_named_files(self):
        self.assert_clean(comments.check_named_files)


class Orphans(StyleCase):

    def refuses(self, text):
        self.assert_finds(comments.check_orphans, "rpc/a.h", text,
                          "did not fit the line before")

    def accepts(self, text):
        self.assert_accepts(comments.check_orphans, "rpc/a.h", text)

    def test_one_word_in_the_middle_of_a_paragraph(self):
        self.refuses(_FULL + "\n// occupy\n// a worker meanwhile.\n")
        self.refuses("  " + _FULL + "\n  // occupy\n  // a worker.\n")

    def test_the_end_of_a_rule(self):
        self.refuses("  // --- Connecting " + "-" * 58 + "\n  // ---\n")
        self.accepts("// --- Connecting ---\n")

    def test_one_word_under_a_comment_behind_code(self):
        self.refuses("int a = 1;  // The first of all\n"
                     "            // numbers.\n")
        self.accepts("int a = 1;  // The first of all\n"
                     "            // natural numbers.\n"
                     "// Letters:\nint b;\n")

    def test_words_that_stand_alone_for_a_reason(self):
        self.accepts(_FULL + "\n// null.\n// REQUIRES: more.\n")
        self.accepts(_FULL + "\n// last\n")
        self.accepts(_FULL + "\n//   item\n// and more\n")
        self.accepts("// Short.\n// one\n// two\n")


class MovedValues(StyleCase):

    def test_a_value_moved_by_its_comment(self):
        check = comments.check_moved_values
        comment = "// What it is that the server was asked for and sent.\n"
        self.assert_finds(check, "rpc/a.h", "  bool served_ =\n      false;  " +
                          comment, "put the comment above it")
        self.assert_accepts(check, "rpc/a.h",
                            "  " + comment + "  bool served_ = false;\n")
        self.assert_accepts(check, "rpc/a.h", "int " + "x" * 73 +
                            " =\n    false;  " + comment)


class NamedFiles(StyleCase):

    def test_a_file_that_is_gone(self):
        check = comments.check_named_files
        for path, text in (("rpc/a.h", "int b;  // See rpc/b.h for more.\n"),
                           ("README.md", "As `rpc/b.h` says.\n")):
            self.assert_finds(check, path, text, "rpc/b.h is gone")
            self.assert_accepts(check, path, text, {"rpc/b.h": ""})
        self.assert_accepts(check, "rpc/a.cc",
                            '#include "rpc/c.pb.h"\n// As rpc/c.pb.h.\n')


if __name__ == "__main__":
    unittest.main()
