"""The files of this repository as the style checks see them."""

import dataclasses
import os
import re
import subprocess

_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
# A test, or what only tests use: fake_registrar.h, cm_test_end.cc.
_TEST_FILE = re.compile(r"(_test|_fixture)\.(h|cc)$"
                        r"|(^|/)(fake|(\w+_)?test)_\w+\.(h|cc)$")


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong, where, and what to do instead."""
    path: str
    line: int
    message: str

    def __str__(self):
        return "%s:%d: %s" % (self.path, self.line, self.message)


class SourceFile:
    """A file by its path in the repository, with its text."""

    def __init__(self, path, text):
        self.path = path
        self.folder = os.path.dirname(path)
        self.name = os.path.basename(path)
        self.text = text
        self.lines = text.splitlines()
        # Line by line what is code: no comment, no string.
        self.code = (strip_cpp(text).splitlines() if self.is_cpp()
                     else self.lines)

    def is_cpp(self):
        return self.path.endswith((".h", ".cc"))

    def is_test(self):
        """Whether it exists for tests only, or measures a piece as they do."""
        return (self.under("tests", "tools/microbench")
                or _TEST_FILE.search(self.path) is not None)

    def is_program(self):
        return any(line.startswith("int main(") for line in self.code)

    def under(self, *folders):
        return any(self.path.startswith(folder + "/") for folder in folders)

    def includes(self):
        """(line number, '"' or '<', path) of each #include."""
        for number, line in enumerate(self.lines, start=1):
            found = _INCLUDE.match(line)
            if found:
                yield number, found.group(1), found.group(2)


class SourceTree:
    """All files of a repository, by path."""

    def __init__(self, files):
        self.files = {each.path: each for each in files}

    def __iter__(self):
        return iter(self.files[path] for path in sorted(self.files))

    def cpp(self):
        return [each for each in self if each.is_cpp()]

    def get(self, path):
        return self.files.get(path)

    @classmethod
    def of(cls, texts):
        """A tree for tests, from {path: text}."""
        return cls(SourceFile(path, text) for path, text in texts.items())

    @classmethod
    def read(cls, root):
        """What git tracks or would track, but for what others wrote.

        That is third-party and binary files, and what fuzzers found.
        """
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], check=True, stdout=subprocess.PIPE,
            text=True).stdout
        files = []
        for path in sorted(set(filter(None, listed.split("\0")))):
            full = os.path.join(root, path)
            if (path.startswith(("third_party/", "tests/fuzz/corpus/"))
                    or not os.path.isfile(full)):
                continue
            with open(full, "rb") as stream:
                data = stream.read()
            if b"\0" not in data:
                files.append(SourceFile(path, data.decode(errors="replace")))
        return cls(files)


_TOKEN = re.compile(
    r'//[^\n]*'                                      # Line comment.
    r'|/\*.*?\*/'                                    # Block comment.
    r'|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'         # Raw string.
    r'|"(?:\\.|[^"\\\n])*"'                          # String.
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",         # Character.
    re.DOTALL)


def strip_cpp(text):
    """The text with comments gone and strings empty, on the same lines.

    Includes keep their paths.
    """
    def blank(found):
        token = found.group(0)
        line_start = text.rfind("\n", 0, found.start()) + 1
        newlines = "\n" * token.count("\n")
        if token.startswith("/"):
            return " " + newlines
        if text[line_start:found.start()].lstrip().startswith("#include"):
            return token
        quote = "'" if token.startswith("'") else '"'
        return quote + newlines + quote
    return _TOKEN.sub(blank, text)


@dataclasses.dataclass(frozen=True)
class Function:
    """Where a function's body begins and ends."""
    name: str
    first_line: int
    last_line: int

    def length(self):
        return self.last_line - self.first_line + 1


_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", re.MULTILINE)
_NAME = re.compile(r"([~\w:]+(?:\s*\([^()]*\))?)\s*\(")


def functions(source):
    """The functions with a body in a C++ file, methods in classes included.

    Reads braces, not grammar: enough for code that clang-format laid out.
    """
    text = _DIRECTIVE.sub(lambda found: "\n" * found.group(0).count("\n"),
                          "\n".join(source.code))
    found = []
    scopes = []  # Of each open brace: "scope", "function" or "other".
    head_start = 0
    opened = None
    for match in re.finditer(r"[{};]", text):
        position, character = match.start(), match.group(0)
        declarative = all(scope == "scope" for scope in scopes)
        if character == "{":
            head = text[head_start:position].strip()
            kind = _kind_of(head) if declarative else "other"
            scopes.append(kind)
            if kind == "function":
                opened = (_name_of(head), position)
            elif kind == "scope":
                head_start = match.end()
        elif character == "}" and scopes:
            kind = scopes.pop()
            # A brace after a brace is a member initialiser: Foo() : a_{1} {}.
            goes_on = re.match(r"\s*[,{]", text[match.end():])
            if kind == "function" and not goes_on:
                name, start = opened
                found.append(Function(name, _line(text, start),
                                      _line(text, position)))
            if all(scope == "scope" for scope in scopes) and not goes_on:
                head_start = match.end()
        elif character == ";" and declarative:
            head_start = match.end()
    return found


def _kind_of(head):
    before_parenthesis = head.partition("(")[0]
    without_template = re.sub(r"^template\s*<.*?>\s*(?=\w)", "",
                              before_parenthesis, flags=re.DOTALL)
    if "(" not in head and _SCOPE.search(head):
        return "scope"
    if _SCOPE.search(without_template) and _is_type_head(head):
        return "scope"
    if "(" in head and not re.search(r"=\s*$", before_parenthesis):
        return "function"
    return "other"


def _is_type_head(head):
    """A class with an attribute: class alignas(64) Foo, class [[x("")]] Foo."""
    return re.match(r"(?:template\s*<.*>\s*)?(?:class|struct|union|enum)\s+"
                    r"(?:alignas\s*\([^)]*\)|\[\[.*?\]\])\s*\w+[^()]*$", head,
                    re.DOTALL) is not None


def _name_of(head):
    found = _NAME.search(head)
    return found.group(1) if found else head.split()[-1]


def _line(text, position):
    return text.count("\n", 0, position) + 1
