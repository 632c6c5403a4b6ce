#!/usr/bin/env python3
"""Draws docs/images/figures.svg from a table of docs/benchmarks.md.

usage: tools/docs/draw_figures.py

The table is the first below "### Beside gRPC". A test holds the picture to it.
"""

import math
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs/benchmarks.md")
PICTURE = os.path.join(ROOT, "docs/images/figures.svg")

COLOURS = ["#0f9d8a", "#7cc7bd", "#d97706", "#f0b765", "#8a94a3"]
LEFT, TOP, WIDTH, BAR, GAP = 210, 66, 420, 13, 26
LEAST, MOST = 0.1, 1000.0  # Microseconds, on a logarithmic scale.


def read_table(text):
    """(loads, [(system, [p50 of each load])])."""
    part = text.partition("### Beside gRPC")[2]
    rows = re.findall(r"^\|(.*)\|$", part.partition("\n\n|")[2].partition(
        "\n\n")[0].join(["|", "\n"]), re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    loads = cells[0][1:]
    return loads, [(row[0], [float(cell.split()[0]) for cell in row[1:]])
                   for row in cells[2:]]


def x_of(value):
    return LEFT + WIDTH * (math.log10(value / LEAST)
                           / math.log10(MOST / LEAST))


def draw(loads, systems):
    group = len(systems) * BAR + GAP
    height = TOP + len(loads) * group + 34
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 %d" '
        'font-family="sans-serif" font-size="12" role="img">' % height,
        "<title>p50 of a 64 B echo, one caller, microseconds</title>",
        "<style>text{fill:#24292f}.line{stroke:#d0d7de}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}"
        ".line{stroke:#3d444d}}</style>"]
    for i, (system, _) in enumerate(systems):
        x, y = 16 + i % 3 * 235, 14 + i // 3 * 20
        lines.append('<rect x="%d" y="%d" width="12" height="12" fill="%s"/>'
                     '<text x="%d" y="%d">%s</text>' %
                     (x, y, COLOURS[i], x + 18, y + 10, system))
    bottom = height - 30
    for value, label in ((0.1, "0.1 us"), (1, "1 us"), (10, "10 us"),
                         (100, "100 us"), (1000, "1 ms")):
        lines.append('<path class="line" d="M%.1f %dV%d"/><text x="%.1f" '
                     'y="%d" text-anchor="middle">%s</text>' %
                     (x_of(value), TOP - 6, bottom, x_of(value), bottom + 18,
                      label))
    for i, load in enumerate(loads):
        y = TOP + i * group
        lines.append('<text x="%d" y="%d" text-anchor="end">%s</text>' %
                     (LEFT - 10, y + len(systems) * BAR // 2 + 4, load))
        for j, (_, values) in enumerate(systems):
            end, top = x_of(values[i]), y + j * BAR
            lines.append('<rect x="%d" y="%d" width="%.1f" height="%d" '
                         'fill="%s"/><text x="%.1f" y="%d" font-size="10">'
                         '%g</text>' % (LEFT, top, end - LEFT, BAR - 2,
                                        COLOURS[j], end + 4, top + 10,
                                        values[i]))
    return "\n".join(lines + ["</svg>"]) + "\n"


def picture():
    with open(PAGE) as page:
        return draw(*read_table(page.read()))


if __name__ == "__main__":
    with open(PICTURE, "w") as file:
        file.write(picture())
