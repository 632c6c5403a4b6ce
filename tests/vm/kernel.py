"""Finds a stock kernel on this machine and packs it an initramfs."""

import gzip
import lzma
import os
import re
import shutil
import struct
import subprocess

# What the guest loads, besides what each of these depends on. rdma_rxe asks
# the kernel for "crc32" by name at run time, which modules.dep does not know:
# without crc32_generic it fails with "failed to init crc32 algorithm".
MODULES = [
    "crc32_generic",
    "crc32c_generic",
    "virtio_pci",
    "virtio_net",
    "9pnet_virtio",
    "9p",
    "overlay",
    "veth",
    "sch_netem",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
]


class KernelError(Exception):
    """Says what is missing and which package brings it."""


class Kernel:
    """A kernel image and the modules that belong to it."""

    def __init__(self, image, release, modules_root="/lib/modules"):
        self.image = image
        self.release = release
        self.modules_dir = os.path.join(modules_root, release)

    def module_files(self, names):
        """Paths of `names` and all they need, in load order.

        Leaves out what is built into the kernel.
        """
        dependencies, builtin = self._read_indexes()
        path_of = {_module_name(path): path for path in dependencies}
        ordered = []
        for name in names:
            key = name.replace("-", "_")
            if key in builtin:
                continue
            if key not in path_of:
                raise KernelError(
                    "Kernel %s has no module %s. Install the full "
                    "package: linux-image-amd64 (Debian) or "
                    "linux-image-generic and linux-modules-extra-%s (Ubuntu)."
                    % (self.release, name, self.release))
            path = path_of[key]
            # modules.dep names the nearest dependency first.
            for each in reversed([path] + dependencies[path]):
                if each not in ordered:
                    ordered.append(each)
        return [os.path.join(self.modules_dir, path) for path in ordered]

    def _read_indexes(self):
        dep_file = os.path.join(self.modules_dir, "modules.dep")
        if os.path.exists(dep_file):
            with open(dep_file) as stream:
                text = stream.read()
        else:
            # The kernel package was unpacked but not configured, as happens
            # in containers: work the dependencies out without writing them.
            text = subprocess.run(
                [_tool("depmod"), "-n", self.release], check=True, text=True,
                stdout=subprocess.PIPE).stdout
            text = text.partition("# Aliases")[0]
        dependencies = {}
        for line in text.splitlines():
            path, colon, rest = line.partition(":")
            if colon and ".ko" in path:
                dependencies[path] = rest.split()
        builtin = set()
        builtin_file = os.path.join(self.modules_dir, "modules.builtin")
        if os.path.exists(builtin_file):
            with open(builtin_file) as stream:
                builtin = {_module_name(line) for line in stream}
        return dependencies, builtin


def _module_name(path):
    name = os.path.basename(path.strip())
    return name.partition(".ko")[0].replace("-", "_")


def _tool(name):
    for folder in ("/usr/sbin", "/sbin", "/usr/bin", "/bin"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    raise KernelError("%s is not installed (package kmod)." % name)


def _version_key(release):
    return [int(part) for part in re.findall(r"\d+", release)]


def find_kernel(boot="/boot", modules_root="/lib/modules"):
    """The newest kernel whose image and modules are both here."""
    candidates = []
    for name in os.listdir(boot) if os.path.isdir(boot) else []:
        release = name.partition("vmlinuz-")[2]
        if release and os.path.isdir(
                os.path.join(modules_root, release, "kernel")):
            candidates.append(release)
    if not candidates:
        raise KernelError(
            "No kernel with modules: nothing matches %s/vmlinuz-* and %s/*. "
            "Install linux-image-amd64 (Debian) or linux-image-generic "
            "(Ubuntu)." % (boot, modules_root))
    release = max(candidates, key=_version_key)
    return Kernel(os.path.join(boot, "vmlinuz-" + release), release,
                  modules_root)


def readable_image(kernel, folder):
    """The kernel image, copied to `folder` if only root may read it."""
    if os.access(kernel.image, os.R_OK):
        return kernel.image
    copy = os.path.join(folder, "vmlinuz")
    with open(copy, "wb") as stream:
        result = subprocess.run(["sudo", "-n", "cat", kernel.image],
                                stdout=stream, stderr=subprocess.DEVNULL,
                                check=False)
    if result.returncode != 0:
        raise KernelError(
            "Only root can read %s. Allow it: sudo chmod a+r %s" %
            (kernel.image, kernel.image))
    return copy


def module_bytes(path):
    """What is in a module's file, which may be compressed."""
    with open(path, "rb") as stream:
        data = stream.read()
    if path.endswith(".xz"):
        return lzma.decompress(data)
    if path.endswith(".gz"):
        return gzip.decompress(data)
    if path.endswith(".zst"):
        return subprocess.run([_tool("zstd"), "-dc"], input=data, check=True,
                              stdout=subprocess.PIPE).stdout
    return data


class CpioArchive:
    """Writes the "newc" format, the one that the kernel unpacks."""

    def __init__(self, stream):
        self._stream = stream
        self._inode = 0

    def add_folder(self, name):
        self._add(name, 0o040755, b"")

    def add_file(self, name, data, mode=0o644):
        self._add(name, 0o100000 | mode, data)

    def close(self):
        self._add("TRAILER!!!", 0, b"")

    def _add(self, name, mode, data):
        self._inode += 1
        encoded = name.encode() + b"\0"
        fields = [self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0,
                  len(encoded), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self._write_padded(header + encoded)
        self._write_padded(data)

    def _write_padded(self, data):
        self._stream.write(data + b"\0" * (-len(data) % 4))


def _is_dynamic(elf):
    """Whether a 64-bit ELF file names a dynamic loader."""
    offset, = struct.unpack_from("<Q", elf, 0x20)
    size, count = struct.unpack_from("<HH", elf, 0x36)
    types = [struct.unpack_from("<I", elf, offset + i * size)[0]
             for i in range(count)]
    return 3 in types  # PT_INTERP


def write_initramfs(kernel, init_script, target):
    """Packs busybox, the modules and `init_script` into `target`."""
    busybox = shutil.which("busybox", path="/usr/bin:/bin")
    if busybox is None:
        raise KernelError("busybox is not installed (package busybox-static).")
    with open(busybox, "rb") as stream:
        busybox_bytes = stream.read()
    if _is_dynamic(busybox_bytes):
        raise KernelError(
            "%s is dynamically linked; the guest needs the package "
            "busybox-static." % busybox)
    with open(init_script, "rb") as stream:
        init_bytes = stream.read()
    with open(target, "wb") as stream:
        archive = CpioArchive(stream)
        for folder in ("bin", "dev", "proc", "sys", "host", "over", "root",
                       "modules"):
            archive.add_folder(folder)
        archive.add_file("bin/busybox", busybox_bytes, 0o755)
        archive.add_file("init", init_bytes, 0o755)
        load_order = []
        for path in kernel.module_files(MODULES):
            name = _module_name(path) + ".ko"
            archive.add_file("modules/" + name, module_bytes(path))
            load_order.append(name)
        archive.add_file("modules/order",
                         "".join(n + "\n" for n in load_order).encode())
        archive.close()
