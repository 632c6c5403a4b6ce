"""Puts files into a prefix, and takes exactly these away again.

The manifest lists what was installed, below the prefix: files, and with a "/"
at the end folders that were not there before.
"""

import os
import shutil

MANIFEST = "share/verbena/install-manifest.txt"


class Refused(Exception):
    """What is in the way, and what to do; for the user."""


def install(stage, root):
    """Copies all that is below `stage` into the folder `root`.

    What was installed there before is taken away first. A file of somebody
    else's is never overwritten.
    """
    paths = sorted(_files_below(stage) + [MANIFEST])
    ours = set(_read_manifest(root))
    for path in paths:
        if path not in ours and os.path.lexists(os.path.join(root, path)):
            raise Refused("%s exists, and was not installed by this command. "
                          "Move it away, or use another --prefix." %
                          os.path.join(root, path))
    _require_writable(root)
    if ours:
        uninstall(root)
    folders = []
    for path in paths:
        folders += _make_folders(root, os.path.dirname(path))
    # Before the files, so that what stops half-way can still be uninstalled.
    with open(os.path.join(root, MANIFEST), "w") as stream:
        stream.writelines(path + "\n" for path in paths)
        stream.writelines(path + "/\n" for path in folders)
    for path in paths:
        if path != MANIFEST:
            shutil.copy2(os.path.join(stage, path), os.path.join(root, path),
                         follow_symlinks=False)
    return paths


def uninstall(root):
    """Removes what the manifest in `root` lists; folders only if empty."""
    entries = _read_manifest(root)
    if not entries:
        raise Refused("There is no %s: Verbena is not installed there. Give "
                      "the --prefix and --destdir of the installation." %
                      os.path.join(root, MANIFEST))
    _require_writable(root)
    for path in entries:
        if not path.endswith("/"):
            _remove(os.path.join(root, path))
    for path in sorted(entries, reverse=True):
        if path.endswith("/"):
            try:
                os.rmdir(os.path.join(root, path))
            except OSError:
                pass  # It holds what others have put there since.
    return entries


def _files_below(folder):
    return [os.path.relpath(os.path.join(where, name), folder)
            for where, _, names in os.walk(folder) for name in names]


def _read_manifest(root):
    try:
        with open(os.path.join(root, MANIFEST)) as stream:
            entries = stream.read().splitlines()
    except FileNotFoundError:
        return []
    for entry in entries:
        if entry.startswith("/") or ".." in entry.split("/"):
            raise Refused("%s is damaged: it names %s, which is outside of its "
                          "folder. Nothing was changed." %
                          (os.path.join(root, MANIFEST), entry))
    return entries


def _require_writable(root):
    """Says that it takes root before anything has been changed."""
    there = root
    while not os.path.exists(there):
        there = os.path.dirname(there)
    if not os.access(there, os.W_OK):
        raise Refused("%s is not writable by this user. Run the command as "
                      "root (sudo), or use another --prefix." % there)


def _make_folders(root, folder):
    """Makes root/folder; the paths of those that were not there, below root."""
    made = []
    os.makedirs(root, exist_ok=True)
    path = ""
    for part in folder.split("/"):
        path = os.path.join(path, part)
        if not os.path.isdir(os.path.join(root, path)):
            os.mkdir(os.path.join(root, path))
            made.append(path)
    return made


def _remove(path):
    try:
        os.remove(path)
    except FileNotFoundError:
        pass  # Somebody was faster, which is what was wanted.
