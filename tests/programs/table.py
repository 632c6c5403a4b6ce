#!/usr/bin/env python3
"""Prints a table of programs and devices from what run_lines left.

usage: table.py COLUMN...

Each COLUMN is a file of --column; one that is missing gives a column of
question marks: its run ended before it counted.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lines  # noqa: E402

_SHOWN = {"passed": "passed", "failed": "FAILED", "skipped": "skipped"}


def read_column(path):
    """(title, outcomes by line); the title is the file's if it is missing."""
    try:
        with open(path) as stream:
            column = json.load(stream)
        return column["column"], column["outcomes"]
    except (OSError, ValueError):
        return os.path.basename(path), {}


def table_of(columns, titles):
    """Lines of text. What is not a plain word is a note below the table."""
    notes = []

    def cell(outcomes, title):
        word, remark = outcomes.get(title, ("?", ""))
        if word in _SHOWN or word == "?":
            return _SHOWN.get(word, word)
        if remark not in notes:
            notes.append(remark)
        return "(%d)" % (notes.index(remark) + 1)

    rows = [["program and options"] + [name for name, _ in columns]]
    rows += [[title] + [cell(outcomes, title) for _, outcomes in columns]
             for title in titles]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = ["  ".join(word.ljust(width) for word, width in zip(row, widths))
            .rstrip() for row in rows]
    text.insert(1, "  ".join("-" * width for width in widths))
    text += ["(%d) does not apply: %s" % (number, note)
             for number, note in enumerate(notes, start=1)]
    return text


def main(paths):
    columns = [read_column(path) for path in paths]
    print("\n".join(table_of(columns, [line.title for line in lines.LINES])))


if __name__ == "__main__":
    main(sys.argv[1:])
