#!/usr/bin/env python3
"""Builds the documents of this repository as one static site.

usage: tools/docs/build_site.py FOLDER

FOLDER is made anew. MkDocs makes the pages of the Markdown files, Doxygen the
reference of the public headers, below api/. Doxygen alone could make both, but
knows neither the links that forges know, page.md#heading, nor a dark page.
What either of them complains of, and a link that leads nowhere, is an error.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tools/install")]

import doxygen_comments  # noqa: E402,F401
import headers  # noqa: E402
import links  # noqa: E402
import markdown_text  # noqa: E402

# Public by its folder, but for the library and for generated code.
NOT_FOR_USERS = ("rpc/support/", "rpc/credentials/tls_context",
                 "rpc/credentials/tls_handshake", "rpc/credentials/tls_peer",
                 "rpc/credentials/tls_seal")
API_PAGE = '# API reference\n\n<meta http-equiv="refresh" content="0; ' \
    'url=api/index.html">\n\nIt is made by Doxygen, and has a search of its ' \
    'own: <a href="api/index.html">to the reference</a>.\n'


def tracked(*patterns):
    """The files of the repository, those included that are new to git."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others",
         "--exclude-standard", *patterns], check=True, stdout=subprocess.PIPE,
        text=True).stdout.split()
    return sorted({path for path in listed
                   if os.path.exists(os.path.join(ROOT, path))})


def documents():
    """The Markdown files of the repository."""
    return tracked("*.md")


def public_headers():
    found = []
    for folder in headers.PUBLIC_FOLDERS:
        for name in sorted(os.listdir(os.path.join(ROOT, folder))):
            path = folder + "/" + name
            if name.endswith(".h") and not path.startswith(NOT_FOR_USERS):
                found.append(path)
    return found + headers.PUBLIC_HEADERS


def stage(pages):
    """Copies documents, and what they link to, by their paths into `pages`."""
    wanted = set(documents())
    for path in sorted(wanted):
        with open(os.path.join(ROOT, path)) as stream:
            for _, target in markdown_text.links(stream.read()):
                file = os.path.normpath(os.path.join(
                    os.path.dirname(path), target.partition("#")[0]))
                if os.path.isfile(os.path.join(ROOT, file)):
                    wanted.add(file)
    for path in sorted(wanted):
        os.makedirs(os.path.dirname(os.path.join(pages, path)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, path), os.path.join(pages, path))
    shutil.copy(os.path.join(HERE, "site.css"), pages)
    with open(os.path.join(pages, "api.md"), "w") as page:
        page.write(API_PAGE)


def complaints(output):
    """What Doxygen said, but for members: a name may say all there is."""
    for line in output.splitlines():
        if line.strip() and not re.search(
                r"Member .* is not documented", line):
            yield line


def build_reference(site):
    with open(os.path.join(HERE, "Doxyfile")) as stream:
        configuration = stream.read()
    configuration += "INPUT = tools/docs/topics.dox %s\nOUTPUT_DIRECTORY = %s\n"
    result = subprocess.run(
        ["doxygen", "-"], cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
        input=configuration % (" ".join(public_headers()), site))
    problems = list(complaints(result.stdout))
    return problems or ([] if result.returncode == 0
                        else ["doxygen ended with %d" % result.returncode])


def main(arguments):
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit(__doc__)
    site = os.path.abspath(arguments[0])
    if os.path.exists(site) and not os.path.exists(
            os.path.join(site, "sitemap.xml")) and os.listdir(site):
        sys.exit("%s is not empty, and not a site: name another folder" % site)
    with tempfile.TemporaryDirectory(prefix="verbena-docs-") as folder:
        shutil.copy(os.path.join(HERE, "mkdocs.yml"), folder)
        stage(os.path.join(folder, "pages"))
        status = subprocess.run(
            ["mkdocs", "--quiet", "build", "--config-file",
             os.path.join(folder, "mkdocs.yml"), "--site-dir", site]).returncode
    if status != 0:
        sys.exit("mkdocs ended with %d (above)" % status)
    problems = build_reference(site) or list(links.check_site(site))
    print("\n".join(problems), end="\n" if problems else "")
    print("== docs: %d problems; the site begins at %s/index.html" %
          (len(problems), site))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
