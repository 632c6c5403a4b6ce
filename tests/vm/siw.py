"""The module of siw, the kernel's software iWARP, for the guest's kernel.

Ubuntu ships it. Debian does not build it, but has its source: it is compiled
once for each kernel, in seconds, and kept in the user's cache folder.
"""

import glob
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

from kernel import KernelError, module_bytes

SOURCE = "drivers/infiniband/sw/siw/"
# Loaded in this order, besides what rxe and the connection manager load.
NEEDS = ["libcrc32c"]


class Unavailable(KernelError):
    """The guest's kernel has no siw, and here it cannot be built."""


def provide(kernel, share):
    """Leaves siw.ko, and what it needs, in `share`; see siw_up in steps.sh."""
    try:
        own = kernel.module_files(["siw"])[-1]
    except KernelError:
        own = _built(kernel)
    modules = {"siw": own}
    for name in NEEDS:
        files = kernel.module_files([name])  # None if the kernel has it.
        modules.update({name: path for path in files[-1:]})
    for name, path in modules.items():
        with open(os.path.join(share, name + ".ko"), "wb") as stream:
            stream.write(module_bytes(path))


def _cache_folder():
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(root, "verbena")


def _built(kernel):
    """The path of the module that was built for `kernel`, now or earlier."""
    source = _source_archive(kernel.release)
    headers = os.path.join("/usr/src", "linux-headers-" + kernel.release)
    if not os.path.isdir(headers):
        raise Unavailable("%s is missing, which building siw takes (package "
                          "linux-headers-%s)." % (headers, kernel.release))
    # Another revision of the source is another module.
    path = os.path.join(_cache_folder(), "siw-%s-%d.ko" % (
        kernel.release, os.stat(source).st_mtime))
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="verbena-siw-") as folder:
            _unpack(source, folder)
            _compile(headers, folder)
            # Two that build at once each put a whole file there.
            shutil.move(os.path.join(folder, "siw.ko"), path + ".part")
            os.replace(path + ".part", path)
    return path


def _source_archive(release):
    version = re.match(r"\d+\.\d+", release).group(0)
    found = glob.glob("/usr/src/linux-source-%s*.tar.xz" % version)
    if not found:
        raise Unavailable(
            "Kernel %s has no module siw, and its source is not here to build "
            "it from (package linux-source-%s)." % (release, version))
    return max(found)


def _unpack(source, folder):
    with tarfile.open(source, "r|xz") as archive:
        for member in archive:
            directory, _, name = member.name.rpartition("/")
            if member.isfile() and (directory + "/").endswith("/" + SOURCE):
                with open(os.path.join(folder, name), "wb") as stream:
                    shutil.copyfileobj(archive.extractfile(member), stream)
            elif os.path.exists(os.path.join(folder, "Makefile")):
                break  # The rest of the archive has nothing of it.


def _compile(headers, folder):
    for command in (["make", "-s", "-C", headers, "M=" + folder,
                     "CONFIG_RDMA_SIW=m", "modules"],
                    ["strip", "-g", os.path.join(folder, "siw.ko")]):
        try:
            result = subprocess.run(command, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True,
                                    check=False)
        except FileNotFoundError as error:
            raise Unavailable("Building siw takes %s." % command[0]) from error
        if result.returncode != 0:
            raise KernelError("siw cannot be built (%s):\n%s" %
                              (" ".join(command), result.stdout[-2000:]))
