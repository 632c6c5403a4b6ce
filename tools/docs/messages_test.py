"""Quoted messages are in the code, and the chart is of its table."""

import re
import unittest

import build_site
import draw_figures
import markdown_text

PAGE = "docs/troubleshooting.md"


def read(path):
    with open(build_site.ROOT + "/" + path) as file:
        return file.read()


def quoted(text):
    """(line number, message) of the first cells of tables of messages."""
    inside = False
    for number, line in markdown_text.prose(text):
        if line.startswith("| message |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            found = re.match(r"\| `([^`]*)` \|", line)
            yield number, found.group(1) if found else None


def messages(texts):
    """All string literals, those side by side as one."""
    for text in texts:
        joined = re.sub(r'"\s*\n\s*"', "", text)
        yield from re.findall(r'"((?:\\.|[^"\\\n])*)"', joined)


def sources():
    for path in build_site.tracked("rpc/*.cc", "transport/*.cc"):
        if not path.endswith("_test.cc"):
            yield read(path)


class Messages(unittest.TestCase):

    def test_quoted_ones_are_in_the_code(self):
        rows = list(quoted(read(PAGE)))
        self.assertGreater(len(rows), 20)
        known = list(messages(sources()))
        for number, message in rows:
            self.assertIsNotNone(message, "%s:%d: quote the message" %
                                 (PAGE, number))
            self.assertTrue(
                any(message in each for each in known), "%s:%d: the code "
                "says nowhere %r" % (PAGE, number, message))

    def test_finds_what_is_quoted(self):
        self.assertEqual(list(quoted("| message | b |\n|---|---|\n"
                                     "| ` a ` | b |\n| c | d |\n\n| `e` |\n")),
                         [(3, " a "), (4, None)])

    def test_literals_side_by_side_are_one(self):
        self.assertEqual(list(messages(['f("a "\n  "b", "c\\"d");'])),
                         ["a b", 'c\\"d'])


class Figures(unittest.TestCase):

    def test_the_chart_is_of_the_table(self):
        self.assertEqual(read("docs/images/figures.svg"),
                         draw_figures.picture(),
                         "run tools/docs/draw_figures.py")


if __name__ == "__main__":
    unittest.main()
