"""Whether links lead somewhere: those of Markdown files, those of a site."""

import html.parser
import os
import posixpath
import re
import urllib.parse

import markdown_text

_ELSEWHERE = re.compile(r"^(https?|mailto):")


def check_markdown(texts, exists):
    """What is wrong with the links of {path: text}.

    `exists` says of a path in the repository whether there is such a file or
    folder.
    """
    for path, text in sorted(texts.items()):
        for line, target in markdown_text.links(text):
            if _ELSEWHERE.match(target):
                continue
            file, _, anchor = target.partition("#")
            to = path if not file else posixpath.normpath(
                posixpath.join(posixpath.dirname(path), file))
            if to.startswith("..") or not exists(to):
                yield "%s:%d: there is no %s" % (path, line, to)
            elif anchor and to in texts and (
                    anchor not in markdown_text.anchors(texts[to])):
                yield "%s:%d: %s has no heading #%s" % (path, line, to, anchor)


class Page(html.parser.HTMLParser):
    """The anchors, the links and the loaded resources of one HTML file."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.anchors, self.links, self.resources = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(filter(None, (attributes.get("id"),
                                          attributes.get("name"))))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        elif tag == "link" and attributes.get("rel") != "canonical":
            self.resources.append(attributes.get("href"))
        elif tag in ("script", "img", "iframe"):
            self.resources.append(attributes.get("src"))


def check_site(folder):
    """What is wrong with the links of the HTML files in `folder`."""
    pages = {}
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".html") and name != "404.html":
                path = os.path.join(where, name)
                with open(path, errors="replace") as stream:
                    pages[path] = Page(stream.read())
    for path, page in sorted(pages.items()):
        for target in filter(None, page.resources):
            if _ELSEWHERE.match(target) or target.startswith("//"):
                yield "%s: it loads %s from elsewhere" % (path, target)
        for target in page.links + list(filter(None, page.resources)):
            yield from _check_target(folder, pages, path, target)


def _check_target(folder, pages, path, target):
    if re.match(r"^(\w+:|//)", target):
        return
    file, _, anchor = urllib.parse.unquote(target).partition("#")
    file = file.partition("?")[0]
    to = path if not file else os.path.normpath(
        os.path.join(os.path.dirname(path), file))
    if os.path.isdir(to):
        to = os.path.join(to, "index.html")
    if not os.path.exists(to):
        yield "%s: there is no %s" % (path, os.path.relpath(to, folder))
    elif anchor and to in pages and anchor not in pages[to].anchors:
        yield "%s: %s has no anchor #%s" % (path, os.path.relpath(to, folder),
                                            anchor)
