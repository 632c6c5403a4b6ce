"""What documents tell people to type: its programs, targets and flags exist."""

import os
import re
import shlex
import unittest

import build_site
import markdown_text

# Programs that are installed, by the folder of their sources.
INSTALLED = {name: "tools/" + name for name in ("verbena", "rdma_doctor",
                                                "rpc_bench")}
INSTALLED["verbena-gateway"] = "tools/gateway"
# What is not ours.
FOREIGN = {"cd", "cmake", "kill", "mkdir", "modprobe", "podman", "rdma", "rm",
           "tshark"}
# What the reader makes: README.md's service, a program of their own.
READERS = ("greeter", "./my_program")


def read(path):
    with open(os.path.join(build_site.ROOT, path)) as file:
        return file.read()


def exists(path):
    return os.path.exists(os.path.join(build_site.ROOT, path))


def sources(folder):
    """All that is written in a folder, where its flags are."""
    return "".join(
        read(path) for path in build_site.tracked(folder + "/*")
        if path.endswith((".cc", ".h")))


def flags(words):
    return [re.match(r"--([\w-]+)", word).group(1)
            for word in words if word.startswith("--")]


def lacks(words, text):
    """The first flag of `words` that `text` does not know; None if all do.

    A script has it as it is typed, C++ as the name of an ABSL_FLAG, too, with
    underscores for hyphens.
    """
    for flag in flags(words):
        if not re.search(
                r"(--%s|ABSL_FLAG\([^,]+,\s*%s)(?![\w-])" %
                (re.escape(flag), re.escape(flag.replace("-", "_"))), text):
            return "--" + flag
    return None


def problem_of_program(folder, name, words):
    if folder.split("/")[0] in READERS:
        return None
    if not exists(folder + "/BUILD.bazel"):
        return "no package " + folder
    if not exists("%s/%s.cc" % (folder, name)):
        return "no %s in %s" % (name, folder)
    unknown = lacks(words, sources(folder) + sources("examples/common"))
    return "%s has no %s" % (name, unknown) if unknown else None


def problem_of_bazel(words):
    for target in (word for word in words if word.startswith("//")):
        package, _, name = target[2:].partition(":")
        if package.split("/")[0] in READERS:
            continue
        build = package + "/BUILD.bazel"
        if not exists(build):
            return "no package " + target
        name = name or os.path.basename(package)
        if name != "all" and '"%s"' % name not in read(build):
            return "no target " + target
    config = [word for word in words if word.startswith("--config=")]
    for each in config:
        if "build:%s " % each.partition("=")[2] not in read(".bazelrc"):
            return "no " + each
    return None


def problem_of(words, folder):
    """What is wrong with one command that is typed in `folder`, or None."""
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    if not words or words[0] in FOREIGN or words[0] in READERS:
        return None
    program, arguments = words[0], words[1:]
    if program == "bazel":
        return problem_of_bazel(arguments)
    if program == "./dev":
        known = re.findall(r"^  ([a-z |-]+)\)", read("dev"), re.MULTILINE)
        if arguments[0] not in " ".join(known).replace("|", " ").split():
            return "./dev has no " + arguments[0]
        unknown = arguments[0] != "verbs" and lacks(
            arguments, read("dev") + read("tools/install/install.py"))
        return "./dev has no %s" % unknown if unknown else None
    if program in INSTALLED:
        unknown = lacks(arguments, sources(INSTALLED[program]))
        return "%s has no %s" % (program, unknown) if unknown else None
    if program.startswith("bazel-bin/"):
        return problem_of_program(*os.path.split(program[len("bazel-bin/"):]),
                                  arguments)
    if program.startswith("./") and folder.startswith("bazel-bin/"):
        return problem_of_program(folder[len("bazel-bin/"):], program[2:],
                                  arguments)
    if not exists(program):
        return "no program " + program
    unknown = lacks(arguments, read(program))
    return "%s has no %s" % (program, unknown) if unknown else None


def problems_of_block(text):
    folder, found = "", []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[-1] == "&":
            words.pop()
        if words and words[0] == "cd":
            folder = words[1]
        problem = problem_of(words, folder)
        if problem:
            found.append(problem)
    return found


class Commands(unittest.TestCase):

    def test_what_documents_tell_to_type_exists(self):
        problems = [
            "%s:%d: %s" % (path, block.line, problem)
            for path in build_site.documents()
            for block in markdown_text.blocks(read(path))
            if block.language == "sh"
            for problem in problems_of_block(block.text)]
        self.assertEqual(problems, [], "\n".join(problems))

    def test_accepts(self):
        for line in ("./dev bench --against-grpc  # why", "kill %1",
                     "bazel build --config=opt //examples/hello:all",
                     "bazel-bin/examples/hello/client --name=Ada &"):
            self.assertEqual(problems_of_block(line), [], line)

    def test_finds(self):
        for line in ("./dev frobnicate", "gone", "bazel build //gone:all",
                     "bazel build //examples/hello:gone",
                     "bazel build --config=gone //examples/hello:all",
                     "bazel-bin/examples/hello/client --gone=1",
                     "verbena list --gone", "./dev install --gone"):
            self.assertEqual(len(problems_of_block(line)), 1, line)


if __name__ == "__main__":
    unittest.main()
