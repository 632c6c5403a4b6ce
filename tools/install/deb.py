#!/usr/bin/env python3
"""`./dev package`, after the build: Debian packages of what is installed.

usage: deb.py --bin-dir=FOLDER TARGET

Puts packages into the folder TARGET, and prints their names:

  libverbena0         the shared libraries, for programs that need them
  libverbena-dev      headers, archives, CMake package, .pc files, the plugin
  verbena-tools       the programs, and the software device for other programs
  libverbena-admin0, libverbena-admin-dev            a server's status page
  libverbena-prometheus0, libverbena-prometheus-dev  metrics for prometheus-cpp
  libverbena-etcd0, libverbena-etcd-dev              servers in etcd
  verbena-gateway     the bridge to gRPC

The last seven are apart because they stand on what nobody else needs.
They are for the release of Debian or Ubuntu on which they are built.
"""

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import install  # noqa: E402
import package_files  # noqa: E402

MAINTAINER = "The Verbena maintainers <maintainers@verbena.invalid>"

# What of the prefix goes into which package: the first pattern that matches.
CONTENTS = [
    ("libverbena-admin0", r"lib/libverbena_admin\.so\.[\d.]+"),
    ("libverbena-admin-dev", r"lib/libverbena_admin\.(a|so)"
                             r"|lib/pkgconfig/verbena_admin\.pc"
                             r"|include/verbena/services/admin/.*"),
    ("libverbena-prometheus0", r"lib/libverbena_prometheus\.so\.[\d.]+"),
    ("libverbena-prometheus-dev", r"lib/libverbena_prometheus\.(a|so)"
                                  r"|lib/pkgconfig/verbena_prometheus\.pc"
                                  r"|include/verbena/services/prometheus/.*"),
    ("libverbena-etcd0", r"lib/libverbena_etcd\.so\.[\d.]+"),
    ("libverbena-etcd-dev", r"lib/libverbena_etcd\.(a|so)"
                            r"|lib/pkgconfig/verbena_etcd\.pc"
                            r"|include/verbena/resolvers/etcd_.*"),
    ("verbena-gateway", r"bin/verbena-gateway"
                        r"|share/man/man1/verbena-gateway\.1"),
    ("libverbena0", r"lib/lib\w+\.so\.[\d.]+"),
    ("libverbena-dev", r"lib/lib\w+\.(a|so)|lib/(cmake|pkgconfig)/.*|include/.*"
                       r"|bin/protoc-gen-verbena"
                       r"|share/man/man1/protoc-gen-verbena\.1"),
    ("verbena-tools", r"(bin|lib/verbena|share)/.*"),
]

# For what dpkg-shlibdeps cannot see: the headers and archives that those of a
# package stand on, ours among them.
DEVELOPMENT = {
    "libverbena-dev": "libverbena0 (= @VERSION@), libabsl-dev, libibverbs-dev, "
                      "libisal-dev, libprotobuf-dev, librdmacm-dev, "
                      "libsodium-dev, libssl-dev, libc-ares-dev, "
                      "protobuf-compiler",
    "libverbena-admin-dev": "libverbena-admin0 (= @VERSION@), "
                            "libverbena-dev (= @VERSION@), libcivetweb-dev",
    "libverbena-etcd-dev": "libverbena-etcd0 (= @VERSION@), "
                           "libverbena-dev (= @VERSION@), libgrpc++-dev",
    "libverbena-prometheus-dev": "libverbena-prometheus0 (= @VERSION@), "
                                 "libverbena-dev (= @VERSION@), "
                                 "prometheus-cpp-dev",
}

DESCRIPTIONS = {
    "libverbena0": ("libs", "RPC over RDMA, with a software device"),
    "libverbena-dev": ("libdevel", "RPC over RDMA (development files)"),
    "verbena-tools": ("utils", "RPC over RDMA (programs)"),
    "libverbena-admin0": ("libs", "RPC over RDMA (status page of a server)"),
    "libverbena-admin-dev": ("libdevel",
                             "RPC over RDMA (status page, development files)"),
    "libverbena-prometheus0": ("libs", "RPC over RDMA (Prometheus metrics)"),
    "libverbena-prometheus-dev": (
        "libdevel", "RPC over RDMA (Prometheus metrics, development files)"),
    "libverbena-etcd0": ("libs", "RPC over RDMA (servers in etcd)"),
    "libverbena-etcd-dev": (
        "libdevel", "RPC over RDMA (servers in etcd, development files)"),
    "verbena-gateway": ("net", "RPC over RDMA (bridge to gRPC)"),
}

LONG_DESCRIPTION = """\
 Verbena calls services that are defined in .proto files, in microseconds over
 RDMA, or over a software device where there is no RDMA hardware.
"""


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise OSError("%s ended with %d: %s" % (
            command[0], done.returncode, done.stderr.strip()))
    return done.stdout


class Packages:
    """A folder for each package, as its files will be below /."""

    def __init__(self, folder, stage_of_prefix, version, commit_time):
        self.folder = folder
        self.version = version
        self.commit_time = commit_time
        self.architecture = run("dpkg", "--print-architecture").strip()
        for file in files_below(stage_of_prefix):
            self.take(file, os.path.relpath(file, stage_of_prefix))

    def of(self, package, *parts):
        return os.path.join(self.folder, package, *parts)

    def take(self, source, path):
        if path.startswith("share/doc/"):
            return  # Each package has a copyright file of its own.
        package = package_of(path)
        target = self.of(package, "usr", path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if path.startswith("share/man/"):
            with open(source, "rb") as manual:
                packed = gzip.compress(manual.read(), 9, mtime=0)
            with open(target + ".gz", "wb") as stream:
                stream.write(packed)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
            if is_elf(target):
                run("strip", "--strip-unneeded", "--remove-section=.comment",
                    target)

    def finish(self, package, target):
        """Adds what every package has, and writes it into `target`."""
        self.add_documents(package)
        os.makedirs(self.of(package, "DEBIAN"), exist_ok=True)
        self.add_control(package)
        if package in self.libraries():
            self.write(package, "DEBIAN/triggers",
                       "activate-noawait ldconfig\n")
            self.write(package, "DEBIAN/shlibs", self.shlibs(package))
        self.add_sums(package)
        self.settle(package)
        name = "%s_%s_%s.deb" % (package, self.version, self.architecture)
        run("dpkg-deb", "--root-owner-group", "--build", self.of(package),
            os.path.join(target, name))
        return name

    def add_documents(self, package):
        documents = self.of(package, "usr/share/doc", package)
        os.makedirs(documents)
        shutil.copy(os.path.join(ROOT, "LICENSE"),
                    os.path.join(documents, "copyright"))

    def add_control(self, package):
        section, summary = DESCRIPTIONS[package]
        depends = self.library_dependencies(package)
        if package in DEVELOPMENT:
            depends = ", ".join(filter(None, [
                DEVELOPMENT[package].replace("@VERSION@", self.version),
                depends]))
        self.write(package, "DEBIAN/control", "".join([
            "Package: %s\nVersion: %s\nArchitecture: %s\n" % (
                package, self.version, self.architecture),
            "Maintainer: %s\n" % MAINTAINER,
            "Section: %s\nPriority: optional\n" % section,
            "Depends: %s\n" % depends,
            "Recommends: ibverbs-providers\n" * (package == "libverbena0"),
            "Installed-Size: %d\n" % (self.size(package) // 1024 + 1),
            "Description: %s\n%s" % (summary, LONG_DESCRIPTION)]))

    def library_dependencies(self, package):
        """The packages whose shared libraries those of `package` need."""
        files = [file for file in files_below(self.of(package))
                 if is_elf(file)]
        if not files:
            return ""
        # dpkg-shlibdeps works in the tree of a source package.
        source = os.path.join(self.folder, "source")
        os.makedirs(os.path.join(source, "debian"), exist_ok=True)
        for name, text in {"control": "Source: verbena\n\n"
                           "Package: %s\nArchitecture: any\n" % package,
                           "shlibs.local": "".join(
                               self.shlibs(each)
                               for each in self.libraries())}.items():
            with open(os.path.join(source, "debian", name), "w") as stream:
                stream.write(text)
        said = run("dpkg-shlibdeps", "-O", "-x" + package,
                   "-l" + self.of("libverbena0", "usr/lib"),
                   *("-e" + file for file in files), cwd=source)
        return said.strip().replace("shlibs:Depends=", "")

    def libraries(self):
        """The packages that hold shared libraries."""
        return [package for package, _ in CONTENTS if package.endswith("0")]

    def shlibs(self, package):
        """Which libraries are in `package`, as dpkg-shlibdeps reads it.

        Programs may need what their version has and no earlier one.
        """
        major = self.version.split(".")[0]
        return "".join("lib%s %s %s (>= %s)\n" % (
            name, major, package, self.version)
            for name in package_files.LIBRARIES
            if package_of("lib/lib%s.so.%s" % (name, major)) == package)

    def add_sums(self, package):
        lines = []
        for file in sorted(files_below(self.of(package, "usr"))):
            if not os.path.islink(file):
                with open(file, "rb") as stream:
                    digest = hashlib.md5(stream.read()).hexdigest()
                lines.append("%s  %s\n" % (
                    digest, os.path.relpath(file, self.of(package))))
        self.write(package, "DEBIAN/md5sums", "".join(lines))

    def settle(self, package):
        """Makes times and modes those of every build of this commit."""
        for where, folders, names in os.walk(self.of(package)):
            os.chmod(where, 0o755)
            for name in folders + names:
                os.utime(os.path.join(where, name),
                         (self.commit_time, self.commit_time),
                         follow_symlinks=False)
        os.utime(self.of(package), (self.commit_time, self.commit_time))

    def size(self, package):
        return sum(os.lstat(file).st_size
                   for file in files_below(self.of(package)))

    def write(self, package, path, text):
        full = self.of(package, path)
        with open(full, "w") as stream:
            stream.write(text)
        os.chmod(full, 0o644)


def package_of(path):
    """The package that the file `path`, below the prefix, goes into."""
    for package, pattern in CONTENTS:
        if re.fullmatch(pattern, path):
            return package
    raise ValueError("No package has %s: name it in CONTENTS." % path)


def files_below(folder):
    return [os.path.join(where, name)
            for where, _, names in os.walk(folder) for name in names]


def is_elf(path):
    if os.path.islink(path):
        return False
    with open(path, "rb") as stream:
        return stream.read(4) == b"\x7fELF"


def build(bin_dir, target):
    """Writes the packages. Returns their names."""
    commit_time = int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    os.environ["SOURCE_DATE_EPOCH"] = str(commit_time)
    os.makedirs(target, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        stage = os.path.join(folder, "stage")
        os.mkdir(stage)
        whole = install.Stage(stage, bin_dir, etcd=True)
        whole.fill()
        whole.add_gateway()
        packages = Packages(os.path.join(folder, "packages"), stage,
                            install.version(), commit_time)
        return [packages.finish(package, target)
                for package, _ in CONTENTS]


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", required=True)
    parser.add_argument("target")
    options = parser.parse_args(arguments)
    try:
        for name in build(options.bin_dir, options.target):
            print(os.path.join(options.target, name))
    except OSError as error:
        print("./dev package: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
