"""The path of a call in its page, and that its check can fail."""

import unittest

import call_path
from style_case import StyleCase

_SERVER = "\n### At the server\n\n1. `a.cc` `A::Run`: answers.\n\n## Next\n"
_CODE = {"a.cc": "void A::Run() {}\n", "a.h": "class A { int Get() { x; } };",
         call_path.ENTRANCE: "[calls](%s)" % call_path.DOCUMENT}


class Repository(StyleCase):

    def test_life_of_one_call(self):
        self.assert_clean(call_path.check_call_path)


class CallPath(StyleCase):

    def document(self, items):
        return (call_path.SECTION + "\n\nWords.\n\n### At the client\n\n" +
                items + _SERVER + "1. An item elsewhere.\n")

    def refuses(self, items, message, code=None):
        self.assert_finds(call_path.check_call_path, call_path.DOCUMENT,
                          self.document(items), message, code or _CODE)

    def accepts(self, items):
        self.assert_accepts(call_path.check_call_path, call_path.DOCUMENT,
                            self.document(items), _CODE)

    def test_accepts_what_is_there(self):
        self.accepts("1. `a.cc` `A::Run`, `a.h`\n   `A::Get`: see `gone`.\n"
                     "2. `a.h` `A::Get`: more.\n")

    def test_refuses_what_is_gone(self):
        self.refuses("1. `b.cc` `A::Run`: x.\n", "there is no file b.cc")
        self.refuses("1. `a.cc` `A::Ran`: x.\n", "does not define A::Ran")
        self.refuses("1. `a.h` `B::Get`: x.\n", "does not define B::Get")
        self.refuses("1. `a.cc`: x.\n", "no function of a.cc")

    def test_refuses_prose_without_a_place(self):
        self.refuses("1. Then it runs.\n", "does not begin with")
        self.refuses("Then it runs.\n", "no numbered list")

    def test_refuses_a_page_without_a_link_to_it(self):
        self.refuses("1. `a.cc` `A::Run`: x.\n", "does not link",
                     {**_CODE, call_path.ENTRANCE: "No link.\n"})

    def test_refuses_a_long_way(self):
        items = "".join("1. `f%d.cc` `F`: x.\n" % i
                        for i in range(call_path.FILES_MAX + 1))
        code = {"f%d.cc" % i: "void F() {}\n"
                for i in range(call_path.FILES_MAX + 1)}
        self.refuses(items, "%d files and %d lines" % (len(code), len(code)),
                     {**_CODE, **code})
        most = call_path.LINES_MAX
        self.refuses("1. `a.cc` `A::Run`: x.\n",
                     "1 files and %d lines" % (most + 1),
                     {**_CODE, "a.cc": "void A::Run() {}\n" + "\n" * most})


if __name__ == "__main__":
    unittest.main()
