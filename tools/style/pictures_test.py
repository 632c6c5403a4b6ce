"""The pictures of the documents, and that their checks can fail."""

import unittest

import layers
import pictures
from style_case import StyleCase

_CODE = {
    "a/b.h": "class ABSL_LOCKABLE Box final : public Base<A> {\n"
             "  void Open();\n};\nenum class Kind : uint8_t { kOne };\n",
    "a/b.cc": "void Box::Shut() {}\nvoid Free() {}\n",
}


def picture(*lines):
    return "".join(each + "\n" for each in ("```text",) + lines + ("```",))


class Repository(StyleCase):

    def test_pictures(self):
        self.assert_clean(pictures.check_pictures)

    def test_layers(self):
        self.assert_clean(pictures.check_layers_picture)

    def test_pages(self):
        self.assert_clean(pictures.check_pages_have_pictures)

    def test_links(self):
        self.assert_clean(pictures.check_pages_are_linked)


class Names(StyleCase):

    def accepts(self, text):
        self.assert_accepts(pictures.check_pictures, "docs/internals/x.md",
                            text, _CODE)

    def refuses(self, line, message):
        self.assert_finds(pictures.check_pictures, "docs/internals/x.md",
                          picture(line), message, _CODE)

    def test_accepts_what_is_there(self):
        self.accepts(picture("| a/ --> a/b.h, b.cc: Box::Open |",
                             "| Box, Kind and a/{b.h,b.cc} v Free()",
                             "| 8 KiB of REQUEST, 1/8, words +---+"))

    def test_looks_for_all_else_in_pictures_only(self):
        self.accepts("Gone\n```sh\nGone\n```\n```\ngone.cc\n```\nx/y\n")

    def test_looks_for_members_in_the_text(self):
        self.accepts("`Box::Open`, `a::Box::Open()`, `Box::field`, Bag::Gone\n")
        self.assert_finds(pictures.check_pictures, "docs/internals/x.md",
                          "See\n`Box::Gone`.\n", "the text names Box::Gone,",
                          _CODE)

    def test_refuses_what_is_gone(self):
        self.refuses("| c/ |", "names c/, but there is no such path")
        self.refuses("a/c.h", "no such path")
        self.refuses("a/{b.h,c.h}", "names a/c.h,")
        self.refuses("c.cc", "no such file")
        self.refuses("Box::Gone", "no such member")
        self.refuses("Bag::Open", "no such member")
        self.refuses("Bag", "no such type")
        self.refuses("Gone()", "no such function")


class Layers(StyleCase):

    def found_in(self, folders):
        text = picture(*(folder + "/" for folder in folders))
        return self.found(pictures.check_layers_picture,
                          {pictures.ARCHITECTURE: text})

    def setUp(self):
        self.highest_first = list(reversed(layers.LAYERS))

    def test_accepts_the_order(self):
        self.assertEqual(self.found_in(self.highest_first), [])

    def test_refuses_another_order(self):
        at = self.highest_first.index("transport/streams")
        self.highest_first[at:at + 2] = reversed(
            self.highest_first[at:at + 2])
        found = self.found_in(self.highest_first)
        self.assertEqual(len(found), 1, found)
        self.assertIn("transport/streams/ may include transport/session/",
                      found[0])

    def test_refuses_other_folders(self):
        self.assertIn("lacks", self.found_in(self.highest_first[1:])[0])
        self.assertIn("not in", self.found_in(
            self.highest_first + ["gone"])[0])
        self.assertIn("twice", self.found_in(
            self.highest_first + ["proto"])[0])
        self.assertIn("no picture", self.found(
            pictures.check_layers_picture, {})[0])


class Pages(StyleCase):

    def accepts(self, path, text):
        self.assert_accepts(pictures.check_pages_have_pictures, path, text)

    def refuses(self, path, text, message):
        self.assert_finds(pictures.check_pages_have_pictures, path, text,
                          message)

    def test_page(self):
        path = pictures.INTERNALS + "x.md"
        self.accepts(path, "# X\n\n" + picture("a") + "## Y\n")
        self.refuses(path, "# X\n\n## Y\n" + picture("a"), "begin with")
        self.refuses(path, "# X\n", "begin with")

    def test_page_without_a_link_to_it(self):
        path = pictures.INTERNALS + "x.md"
        check = pictures.check_pages_are_linked
        self.assert_accepts(check, path, "# X\n",
                            {pictures.ARCHITECTURE: "[x](%s#y)" % path})
        self.assert_finds(check, path, "# X\n", "does not link to it",
                          {pictures.ARCHITECTURE: "x\n"})

    def test_architecture(self):
        three = picture("a") * 3
        self.accepts(pictures.ARCHITECTURE, three + "\n" * 121)
        self.refuses(pictures.ARCHITECTURE, three + "\n" * 122,
                     "3 pictures in 131 lines")
        self.refuses(pictures.ARCHITECTURE, picture("a") * 2, "2 pictures")


if __name__ == "__main__":
    unittest.main()
