"""Boots guests in QEMU and waits for them, never longer than it was told."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import siw
from kernel import KernelError, find_kernel, readable_image, write_initramfs

HERE = os.path.dirname(os.path.abspath(__file__))

# All that QEMU can emulate, but for the marks of a fast "rep movsb": the kernel
# would copy by that, and QEMU emulates it byte by byte.
PROCESSOR = "max,-erms,-fsrm"

# What a guest's console shows when its kernel is beyond help.
_DEAD = re.compile(r"Kernel panic|vm: FATAL|end Kernel panic|Oops:|BUG: unable")


class MachineError(Exception):
    """A guest that did not boot, died or took too long; says which."""


class Machine:
    """One guest. Start(), then Poll() until it says that the guest ended."""

    def __init__(self, node, share, image, initramfs, memory_mb=3072,
                 cpus=2, wire=None, interactive=False):
        self.node = node
        self.console = os.path.join(share, "console%d.log" % node)
        self._share = share
        self._wire = wire
        self._interactive = interactive
        self._command = self._qemu_command(image, initramfs, memory_mb, cpus)
        self._process = None

    def _qemu_command(self, image, initramfs, memory_mb, cpus):
        qemu = shutil.which("qemu-system-x86_64")
        if qemu is None:
            raise KernelError("qemu-system-x86_64 is not installed (package "
                              "qemu-system-x86).")
        # no_timer_check: on a busy host the emulated timer is late, and the
        # kernel would take it for broken.
        cmdline = ("console=ttyS0 panic=-1 oops=panic loglevel=4"
                   " mitigations=off no_timer_check"
                   " vm_share=%s vm_node=%d vm_wire=%s" %
                   (self._share, self.node, "nic" if self._wire else "veth"))
        serial = ("mon:stdio" if self._interactive
                  else "file:" + self.console)
        command = [
            qemu, "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-accel", "tcg,thread=multi",
            "-smp", str(cpus), "-cpu", PROCESSOR, "-m", str(memory_mb),
            "-kernel", image, "-initrd", initramfs, "-append", cmdline,
            "-serial", serial,
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,"
                       "readonly=on,multidevs=remap",
            "-virtfs", "local,path=%s,mount_tag=share,security_model=none,"
                       "multidevs=remap" % self._share,
        ]
        if self._wire:
            command += [
                "-netdev", "socket,id=wire,fd=%d" % self._wire.fileno(),
                "-device", "virtio-net-pci,netdev=wire,romfile=,"
                           "mac=52:54:00:77:00:%02x" % self.node,
            ]
        return command

    def start(self):
        options = {}
        if not self._interactive:
            options["stdin"] = subprocess.DEVNULL
        if self._wire:
            options["pass_fds"] = [self._wire.fileno()]
        self._process = subprocess.Popen(self._command, **options)
        if self._wire:
            self._wire.close()

    def poll(self):
        """True once the guest is off. Raises when it died of something."""
        ended = self._process.poll() is not None
        text = self.console_text()
        found = _DEAD.search(text)
        if found:
            raise MachineError("guest %d died (%s); the end of its console:\n%s"
                               % (self.node, found.group(0), _tail(text)))
        if ended and "vm: plan ended with status 0" not in text:
            if self._interactive:
                return True
            raise MachineError(
                "guest %d ended (qemu status %s) before its plan did; the end "
                "of its console:\n%s" %
                (self.node, self._process.returncode, _tail(text)))
        return ended

    def console_text(self):
        try:
            with open(self.console, errors="replace") as stream:
                return stream.read()
        except FileNotFoundError:
            return ""

    def stop(self):
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _tail(text, lines=25):
    return "\n".join("  | " + line for line in text.splitlines()[-lines:])


def end_cleanly_when_told():
    """SIGTERM unwinds, as ^C does, so that no guest and no folder stays."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def run_guests(share, plans, timeout_s, progress=lambda: None, memory_mb=3072,
               interactive=False, joined=True, with_siw=False):
    """Runs one guest a plan until every plan has ended.

    `share` is a folder that host and guests see at the same path; `plans` are
    texts of bash scripts, at most two. Two guests are on one wire if they are
    to be `joined`. `progress` is called a few times a second. `with_siw`: a
    plan calls siw_up. Raises MachineError or KernelError.
    """
    kernel = find_kernel()
    if with_siw:
        siw.provide(kernel, share)
    image = readable_image(kernel, share)
    initramfs = os.path.join(share, "initramfs")
    write_initramfs(kernel, os.path.join(HERE, "guest", "init"), initramfs)
    wires = [None] * len(plans)
    if joined and len(plans) == 2:
        wires = socket.socketpair()
    machines = []
    for node, plan in enumerate(plans, start=1):
        with open(os.path.join(share, "plan%d.sh" % node), "w") as stream:
            stream.write(plan)
        machines.append(Machine(node, share, image, initramfs, memory_mb,
                                wire=wires[node - 1],
                                interactive=interactive))
    deadline = time.monotonic() + timeout_s
    try:
        for machine in machines:
            machine.start()
        running = list(machines)
        while running:
            # all() would stop at the first: each must be looked at.
            running = [machine for machine in running if not machine.poll()]
            progress()
            if running and time.monotonic() > deadline:
                raise MachineError(
                    "guest %d still ran after %d s; the end of its console:\n%s"
                    % (running[0].node, timeout_s,
                       _tail(running[0].console_text())))
            time.sleep(0.1)
    finally:
        for machine in machines:
            machine.stop()
