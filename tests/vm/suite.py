"""Turns the manifest into plans for guests, and what they left into a tally."""

import itertools
import os
import re
import shlex
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "dev"))

from manifest import Pair, Programs, Test  # noqa: E402
from test_results import Tally  # noqa: E402


def address_of(node, device="rxe0"):
    """See guest/init, and siw_up in guest/steps.sh."""
    return ("10.78.0.%d" if device == "siw0" else "10.77.0.%d") % node


# As timeout(1) and the shell report a program that was stopped.
_STATUS_WORDS = {"124": "it ran past its bound",
                 "137": "it ran past its bound and had to be killed",
                 "134": "it aborted", "139": "it crashed (SIGSEGV)",
                 "127": "there is no such program"}


class Step:
    """One entry of the manifest, in one guest. `suffix` tells apart the same
    test run in another set of guests; `server` is the guest whose device has
    the address to connect to."""

    def __init__(self, entry, bin_dir, suffix="", server=1):
        self.entry = entry
        self.on_siw = entry.device == "siw0"
        self.by_command = getattr(entry, "by_command", False)
        if self.on_siw and isinstance(entry, Test):
            suffix += ".siw"
        self.is_test = isinstance(entry, Test)
        self._words = {"bin": bin_dir, "repository": REPOSITORY,
                       "address": address_of(server, entry.device)}
        if self.is_test:
            suffix = entry.variant + suffix
            self.title = entry.label + suffix
            self.name = (entry.label.strip("/").replace("/", ".")
                         .replace(":", ".") + suffix)
        else:
            self.title = "vm:" + entry.name
            self.name = entry.name

    def plan(self, verb="step"):
        """Lines of bash; see guest/steps.sh."""
        entry = self.entry
        if self.is_test:
            binary = os.path.join(self._words["bin"],
                                  entry.label.strip("/").replace(":", "/"))
            lines = ["gtest %s %d env %s" % (self.name, entry.seconds,
                     shlex.join(["%s=%s" % (key, value.format(**self._words))
                                 for key, value in entry.environment] +
                                [binary] + [each.format(**self._words)
                                            for each in entry.arguments]))]
        elif isinstance(entry, Programs):
            script = entry.script.format(**self._words) or (
                "run_lines --device=%s --address=%s "
                "--column=$VM_SHARE/%s.column" %
                (entry.device, self._words["address"], self.name))
            lines = ["step %s %d %s/tests/programs/%s "
                     "--results=$VM_SHARE/%s.results" % (
                         self.name, entry.seconds, shlex.quote(REPOSITORY),
                         script, self.name)]
        else:
            text = entry.text.format(**self._words)
            lines = ["%s %s %d bash -c %s" % (verb, self.name, entry.seconds,
                                              shlex.quote("exec " + text
                                                          if verb == "serve"
                                                          else text))]
        if self.on_siw:
            lines = ["VERBENA_DEVICE=siw0 VERBENA_TEST_ADDRESS=%s %s" %
                     (self._words["address"], line) for line in lines]
        if entry.no_rnr:
            lines.insert(0, "counters %s.before" % self.name)
            lines.append("counters %s.after" % self.name)
        return lines

    def judge(self, share):
        """The tally of this step, from what the guest left in `share`."""
        tally = Tally()
        status = read(share, self.name + ".status")
        problem = None
        if status is None:
            problem = "the guest left no result"
        elif status.strip() != "0":
            word = _STATUS_WORDS.get(status.strip())
            problem = "it ended with status %s%s" % (
                status.strip(), " (%s)" % word if word else "")
        if self.is_test:
            tally.add_test(self.title, problem, read(share, self.name + ".xml"))
        elif isinstance(self.entry, Programs):
            self._judge_programs(share, problem, tally)
        elif problem is None:
            tally.add_pass()
        else:
            tally.add_failure(self.title, problem)
        if self.entry.no_rnr:
            self._judge_counters(share, tally)
        return tally

    def _judge_programs(self, share, problem, tally):
        """Each program is counted; the step as a whole, only if it is to blame
        for what no program is."""
        results = os.path.join(share, self.name + ".results")
        if os.path.exists(results):
            tally.add(Tally.read(results))
        if problem is None and tally.passed == 0:
            problem = "it ran no program"
        if problem is not None and tally.failed == 0:
            tally.add_failure(self.title, problem)

    def _judge_counters(self, share, tally):
        title = self.title + " NoReceiverNotReadyNaks"
        before = read_counters(share, self.name + ".before")
        after = read_counters(share, self.name + ".after")
        names = [name for name in after if "rnr" in name]
        if not names:
            tally.add_failure(title, "the guest left no RNR counters")
            return
        if after.get("rcvd_pkts", 0) == before.get("rcvd_pkts", 0):
            tally.add_failure(title, "no packet crossed rxe meanwhile")
            return
        grown = ["%s grew by %d" % (name, after[name] - before.get(name, 0))
                 for name in names if after[name] != before.get(name, 0)]
        if grown:
            tally.add_failure(title, ", ".join(grown) +
                              ": a message met an empty receive queue")
        else:
            tally.add_pass()


def slowest(steps, share, count=10):
    """(seconds, name) of the test cases that took longest."""
    cases = []
    for step in steps:
        for attributes in re.findall(r"<testcase ([^>]*)",
                                     read(share, step.name + ".xml") or ""):
            of = dict(re.findall(r'(\w+)="([^"]*)"', attributes))
            cases.append((float(of.get("time", 0)), "%s %s.%s" % (
                step.title, of.get("classname"), of.get("name"))))
    return sorted(cases, reverse=True)[:count]


def read(share, name):
    try:
        with open(os.path.join(share, name), errors="replace") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def read_counters(share, name):
    text = read(share, name + ".counters") or ""
    pairs = [line.split() for line in text.splitlines()]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def _plan(lines):
    head = ["cd %s || exit 1" % shlex.quote(REPOSITORY),
            ". tests/vm/guest/steps.sh"]
    return "\n".join(head + lines + [""])


def apart(guests, bin_dir, only=""):
    """The steps whose names contain `only`, of guests that know nothing of each
    other, and the plan of each guest."""
    steps, plans = [], []
    for node, entries in enumerate(guests, start=1):
        own = [step for step in (Step(entry, bin_dir, server=node)
                                 for entry in entries)
               if only in step.name and (only or not step.by_command)]
        lines = []
        for on_siw, group in itertools.groupby(own, lambda step: step.on_siw):
            part = [line for step in group for line in step.plan()]
            lines += ["siw_up", *part, "siw_down"] if on_siw else part
        plans.append(_plan(lines + ["counters end%d" % node]))
        steps += own
    return steps, plans


def joined(pairs, bin_dir, only=""):
    """The steps of two guests on one wire, of the pairs one of whose names
    contains `only`, and the plan of each guest."""
    steps = []
    plans = [[], []]
    for pair in pairs:
        assert isinstance(pair, Pair)
        server = Step(pair.server, bin_dir)
        client = Step(pair.client, bin_dir, ".two_guests")
        if only not in server.name and only not in client.name:
            continue
        if client.by_command and not only:
            continue
        steps += [server, client]
        plans[0] += server.plan("serve")
        plans[1] += (["await %s.ready 120 || true" % server.name] +
                     client.plan() +
                     [": >$VM_SHARE/%s.finished" % server.name])
    # A guest that is off answers nobody: the first waits for the second.
    plans[1].append(": >$VM_SHARE/clients.finished")
    plans[0].append("await clients.finished 900 || true")
    return steps, [_plan(plan) for plan in plans]
