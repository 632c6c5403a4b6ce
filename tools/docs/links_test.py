"""Links lead somewhere, here, and that the checks can fail."""

import os
import tempfile
import unittest

import build_site
import links
import markdown_text


def read_documents():
    texts = {}
    for path in build_site.documents():
        with open(os.path.join(build_site.ROOT, path)) as stream:
            texts[path] = stream.read()
    return texts


class Repository(unittest.TestCase):

    longMessage = False

    def test_links(self):
        problems = list(links.check_markdown(
            read_documents(),
            lambda path: os.path.exists(os.path.join(build_site.ROOT, path))))
        self.assertEqual(problems, [], "\n".join(problems))

    def test_every_document_is_a_page(self):
        with open(os.path.join(build_site.HERE, "mkdocs.yml")) as stream:
            listed = stream.read()
        for path in build_site.documents():
            self.assertIn(": %s\n" % path, listed, path + " is no page of the "
                          "site: add it to nav in tools/docs/mkdocs.yml")

    def test_every_public_header_has_a_topic(self):
        for path in build_site.public_headers():
            if path != "rpc/rpc.h":
                self.assertIsNotNone(
                    build_site.doxygen_comments.topic_of(path), path +
                    " has no topic in tools/docs/doxygen_comments.py")


class Markdown(unittest.TestCase):

    def check(self, text):
        texts = {"x/a.md": text, "x/b.md": "# One `two`\n"}
        return list(links.check_markdown(
            texts, lambda path: path in texts or path == "dev"))

    def test_accepts(self):
        self.assertEqual(self.check(
            "# Own\n[`b`](b.md#one-two) [c](../dev) [d](https://e.f/) "
            "[g](#own)\n`[h](i)`\n```sh\n[j](k)\n```\n"), [])

    def test_refuses_what_is_gone(self):
        for link in ("c.md", "../x", "b.md#three", "#own", "../../b.md"):
            self.assertEqual(len(self.check("[a](%s)\n" % link)), 1, link)

    def test_anchors_are_those_of_forges(self):
        self.assertEqual(
            markdown_text.anchors("# A, `b_c`: d!\n## E\n## E\n"
                                  "```\n# F\n```\n"),
            ["a-b_c-d", "e", "e-1"])


class Site(unittest.TestCase):

    def check(self, **pages):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages.items():
                with open(os.path.join(folder, name + ".html"), "w") as page:
                    page.write(text)
            return list(links.check_site(folder))

    def test_accepts(self):
        self.assertEqual(self.check(
            a='<a href="b.html#x">b</a> <a href="https://c.d/">c</a>',
            b='<p id="x">'), [])

    def test_refuses_what_is_gone(self):
        for link in ("c.html", "b.html#y", "#x"):
            self.assertEqual(len(self.check(
                a='<a href="%s">' % link, b='<p id="x">')), 1, link)

    def test_refuses_resources_from_elsewhere(self):
        self.assertEqual(len(self.check(
            a='<script src="https://cdn.example/a.js"></script>')), 1)


if __name__ == "__main__":
    unittest.main()
