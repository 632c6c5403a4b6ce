"""The first words of comments, and that the check can fail."""

import unittest

import prose
from style_case import StyleCase


class Repository(StyleCase):

    def test_beginnings(self):
        self.assert_clean(prose.check_beginnings)


class Beginnings(StyleCase):

    def said_of(self, text, **most):
        return self.found(lambda tree: prose.check_beginnings(tree, most),
                          {"rpc/a.h": text})

    def test_words_that_name_nothing(self):
        for text in ("// What it is.\nint a;\n", "int a;  // It is.\n",
                     "  // The same for b.\n"):
            self.assertIn("begin with a noun", "".join(self.said_of(text)))

    def test_nouns_and_verbs(self):
        for text in ("// Returns what it is.\n", "// Italic.\n",
                     "int a;  // Bytes.\n         // What goes on.\n",
                     "// Bytes.\n// It is clear.\n", "int a = 1 // 2;\n"):
            self.assertEqual(self.said_of(text), [], text)

    def test_a_number_may_only_fall(self):
        text = "// What it is.\nint a;\n// Who.\nint b;\n"
        self.assertEqual(self.said_of(text, rpc=2), [])
        self.assertEqual(len(self.said_of(text, rpc=1)), 2)
        self.assertIn("lower its number", self.said_of(text, rpc=3)[0])


if __name__ == "__main__":
    unittest.main()
