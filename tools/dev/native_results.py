#!/usr/bin/env python3
"""Counts what `bazel test` ran, from its build event file.

usage: native_results.py EVENTS EXPECTED RESULTS

EVENTS is what --build_event_json_file wrote; EXPECTED names a label a line,
each of which must have been tested; RESULTS is written, for total.py.
"""

import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from test_results import Tally  # noqa: E402


class Run:
    """What became of one test target: its last attempt at each shard."""

    def __init__(self):
        self.problem = None
        self.reports = []


def read_events(path):
    """Runs by label. Bazel writes one JSON object a line."""
    runs = {}
    if not os.path.exists(path):
        return runs
    with open(path) as stream:
        for line in stream:
            event = json.loads(line)
            result = event.get("testResult")
            if result is None:
                continue
            label = event["id"]["testResult"]["label"]
            run = runs.setdefault(label, Run())
            if result["status"] != "PASSED":
                run.problem = result["status"].lower().replace("_", " ")
            run.reports += [
                urllib.parse.unquote(urllib.parse.urlparse(each["uri"]).path)
                for each in result.get("testActionOutput", [])
                if each["name"] == "test.xml"]
    return runs


def tally_of(runs, expected):
    """Every expected target counts: one that was not run has failed."""
    total = Tally()
    for label in sorted(set(expected) | set(runs)):
        run = runs.get(label)
        if run is None:
            total.add_failure(label, "it was not run (did it compile?)")
            continue
        texts = [text for text in map(_read, run.reports) if text is not None]
        if not texts:
            total.add_test(label, run.problem, None)
        for text in texts:
            total.add_test(label, run.problem, text)
    return total


def _read(path):
    try:
        with open(path, errors="replace") as stream:
            return stream.read()
    except OSError:
        return None


def main(events, expected_file, results):
    with open(expected_file) as stream:
        expected = stream.read().split()
    total = tally_of(read_events(events), expected)
    for failure in total.failures:
        print("FAILED " + failure)
    print("== native: " + total.summary())
    total.write(results)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
