#!/usr/bin/env python3
"""`./dev install` and `./dev uninstall`, after the build.

usage: install.py install --bin-dir=FOLDER [--prefix=P] [--destdir=D]
                          [--gateway] [--etcd]
       install.py uninstall [--prefix=P] [--destdir=D]
       install.py stage --bin-dir=FOLDER FOLDER    what would be below P

P is /usr/local by default, D the environment's DESTDIR or empty: files go to
D/P, and find each other wherever they are. --gateway: verbena-gateway too.
--etcd: libverbena_etcd too.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import headers  # noqa: E402
import package_files  # noqa: E402
import placement  # noqa: E402

# Bazel's outputs that are programs, and where they go.
PROGRAMS = {
    "proto/compiler/protoc-gen-verbena": "bin/protoc-gen-verbena",
    "tools/rdma_doctor/rdma_doctor": "bin/rdma_doctor",
    "tools/rpc_bench/rpc_bench": "bin/rpc_bench",
    "tools/verbena/verbena": "bin/verbena",
    "transport/soft/preload/libverbena-soft.so":
        "lib/verbena/libverbena-soft.so",
}
# The one that is installed only if it is asked for, and its manual.
GATEWAY = "tools/gateway/verbena-gateway"


def version():
    with open(os.path.join(ROOT, "rpc", "version.h")) as stream:
        return re.search(r'kVersion = "([\d.]+)"', stream.read()).group(1)


class Stage:
    """A folder with all files as they will be below the prefix."""

    def __init__(self, folder, bin_dir, etcd=False):
        self.folder = folder
        self.bin_dir = bin_dir
        self.version = version()
        self.libraries = [name for name in package_files.LIBRARIES
                          if etcd or name not in package_files.ON_REQUEST]

    def fill(self):
        for name in self.libraries:
            self.add_library(name)
        for built, path in PROGRAMS.items():
            self.copy(os.path.join(self.bin_dir, built), path, 0o755)
        self.write("bin/verbena-verbs",
                   package_files.fill("templates/verbena-verbs", {}), 0o755)
        for name in os.listdir(os.path.join(HERE, "man")):
            self.write("share/man/man1/" + name, package_files.fill(
                "man/" + name, {"VERSION": self.version}))
        self.copy(os.path.join(HERE, "completion.bash"),
                  "share/bash-completion/completions/verbena", 0o644)
        self.copy(os.path.join(ROOT, "LICENSE"), "share/doc/verbena/LICENSE",
                  0o644)
        self.add_headers()
        self.add_cmake()

    def add_gateway(self):
        self.copy(os.path.join(self.bin_dir, GATEWAY), "bin/verbena-gateway",
                  0o755)
        with open(os.path.join(ROOT, GATEWAY + ".1")) as stream:
            manual = stream.read().replace("@VERSION@", self.version)
        self.write("share/man/man1/verbena-gateway.1", manual)

    def add_library(self, name):
        whole = "lib%s.so.%s" % (name, self.version)
        soname = "lib%s.so.%s" % (name, self.version.split(".")[0])
        self.copy(self.built(name, ".a"), "lib/lib%s.a" % name, 0o644)
        self.copy(self.built(name, ".so"), "lib/" + whole, 0o644)
        os.symlink(whole, self.place("lib/" + soname))
        os.symlink(soname, self.place("lib/lib%s.so" % name))
        self.write("lib/pkgconfig/%s.pc" % name, package_files.pkg_config(
            name, self.version, self.flags(name)))

    def add_headers(self):
        files = headers.read_list(self.built(name, ".headers")
                                  for name in self.libraries)

        def read(file):
            # Bazel's paths begin where its outputs do: bazel-out/MODE/bin.
            in_bin = re.sub(r"^bazel-out/[^/]+/bin", self.bin_dir, file)
            with open(os.path.join(ROOT, in_bin)) as stream:
                return stream.read()
        installed = headers.rewrite(headers.closure(files, read))
        for path, text in installed.items():
            self.write("include/" + path, text)

    def add_cmake(self):
        flags = {name: self.flags(name) for name in self.libraries}
        texts = package_files.cmake(self.version, flags)
        for name, text in texts.items():
            self.write("lib/cmake/Verbena/" + name, text)

    def built(self, name, suffix):
        return os.path.join(self.bin_dir, "tools/install",
                            "lib%s%s" % (name, suffix))

    def flags(self, name):
        with open(self.built(name, ".flags")) as stream:
            return stream.read().split()

    def place(self, path):
        full = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return full

    def copy(self, source, path, mode):
        shutil.copyfile(source, self.place(path))
        os.chmod(self.place(path), mode)

    def write(self, path, text, mode=0o644):
        with open(self.place(path), "w") as stream:
            stream.write(text)
        os.chmod(self.place(path), mode)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev", usage=(
        "./dev install [--gateway] [--etcd] | uninstall "
        "[--prefix=FOLDER] [--destdir=FOLDER]"))
    parser.add_argument("command", choices=["install", "uninstall", "stage"])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--bin-dir")
    parser.add_argument("--gateway", action="store_true")
    parser.add_argument("--etcd", action="store_true")
    parser.add_argument("--prefix", default="/usr/local")
    parser.add_argument("--destdir", default=os.environ.get("DESTDIR", ""))
    options = parser.parse_args(arguments)
    if not os.path.isabs(options.prefix):
        parser.error("--prefix is %s; it must begin with /" % options.prefix)
    return options


def main(arguments):
    options = parse(arguments)
    root = (os.path.join(options.destdir, options.prefix.lstrip("/"))
            if options.destdir else options.prefix)
    try:
        if options.command == "stage":
            Stage(options.folder, options.bin_dir).fill()
        elif options.command == "uninstall":
            placement.uninstall(root)
            print("Uninstalled from %s." % root)
        else:
            with tempfile.TemporaryDirectory() as folder:
                stage = Stage(folder, options.bin_dir, options.etcd)
                stage.fill()
                if options.gateway:
                    stage.add_gateway()
                paths = placement.install(folder, root)
            print("Installed %d files in %s." % (len(paths), root))
        if options.command != "stage" and not options.destdir:
            # So that programs find the shared libraries, or know them gone;
            # it says nothing of folders that the loader does not look in.
            subprocess.run(["ldconfig"], check=False, stderr=subprocess.DEVNULL)
    except (placement.Refused, OSError) as error:
        print("./dev %s: %s" % (options.command, error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
