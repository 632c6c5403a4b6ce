"""C++, proto and YAML blocks of documents stand in files of the tree."""

import re
import unittest

import build_site
import markdown_text

LANGUAGES = ("cpp", "c++", "c", "proto", "diff", "yaml")
FOLDERS = ("docs/code/*", "examples/*")


def squeezed(text):
    """Code without comments and white space, which layouts differ in."""
    return re.sub(r"\s+", "", re.sub(r"(?<!:)//[^\n]*", "", text))


def stands_in(block, codes):
    """Whether one of `codes` has every statement of `block`, in order.

    `...` stands for what was left out, and an empty line for what stands
    between two places.
    """
    text = re.sub(r"\{ \.\.\. \}", "{\n...\n}", block)
    lines = re.sub(r"(?<!:)//[^\n]*", "", text).split("\n")
    pieces = [squeezed(piece) for piece in re.split(
        r"^\s*(?:\.\.\.\s*)?$", "\n".join(lines), flags=re.MULTILINE)]
    for code in codes:
        at = 0
        for piece in filter(None, pieces):
            at = code.find(piece, at)
            if at < 0:
                break
            at += len(piece)
        else:
            return True
    return False


def code_of(block):
    """What is to be built: of a diff what it leads to."""
    if block.language != "diff":
        return block.text
    return "".join(line[1:] + "\n" for line in block.text.splitlines()
                   if not line.startswith("-"))


def read(path):
    with open(build_site.ROOT + "/" + path) as file:
        return file.read()


class CodeBlocks(unittest.TestCase):

    def test_what_documents_show_is_built(self):
        codes = [squeezed(read(path)) for path in build_site.tracked(*FOLDERS)
                 if path.endswith((".cc", ".h", ".proto", ".yaml"))]
        problems = [
            "%s:%d" % (path, block.line) for path in build_site.documents()
            for block in markdown_text.blocks(read(path))
            if block.language in LANGUAGES
            and not block.note.startswith("not checked: ")
            and not stands_in(code_of(block), codes)]
        self.assertEqual(problems, [], "not in docs/code or examples, word by "
                         "word: " + ", ".join(problems))

    def test_finds_differences(self):
        code = [squeezed("int f() { // Why.\n  g();\n  h();\n}\n")]
        self.assertTrue(stands_in("int f() {\n  g(); // Else.\n...\n}", code))
        self.assertTrue(stands_in("g();\n\nh();", code))
        self.assertFalse(stands_in("h();\n\ng();", code))
        self.assertFalse(stands_in("int f() { i(); }", code))


if __name__ == "__main__":
    unittest.main()
