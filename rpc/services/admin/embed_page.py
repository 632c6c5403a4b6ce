#!/usr/bin/env python3
"""Makes the C++ of page.html: its text, and the hashes of what runs in it.

usage: embed_page.py PAGE OUTPUT

A browser runs no script and no style but those with the hashes that the
server's Content-Security-Policy names.
"""

import base64
import hashlib
import re
import sys

_HEADER = "// Made by embed_page.py. NOLINTBEGIN\n\n"
# Compilers need not take longer literals.
_PIECE = 8000


def content_of(element, page):
    """What the one element of that name has in it."""
    found = re.findall("<%s>(.*?)</%s>" % (element, element), page, re.DOTALL)
    if len(found) != 1:
        sys.exit("embed_page.py: %d elements <%s> without attributes in the "
                 "page, must be one" % (len(found), element))
    return found[0]


def hash_of(text):
    """As a Content-Security-Policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def literal(text):
    """A string literal of C++."""
    pieces = [text[i:i + _PIECE] for i in range(0, len(text), _PIECE)]
    return "\n    ".join('R"verbena(%s)verbena"' % piece for piece in pieces)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        page = file.read()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(_HEADER + "namespace verbena::internal {\n\n")
        for name, text in [
            ("kAdminPage", page),
            ("kAdminPageScriptHash", hash_of(content_of("script", page))),
            ("kAdminPageStyleHash", hash_of(content_of("style", page)))]:
            file.write("inline constexpr char %s[] =\n    %s;\n" %
                       (name, literal(text)))
        file.write("\n}  // namespace verbena::internal\n\n// NOLINTEND\n")


if __name__ == "__main__":
    main()
