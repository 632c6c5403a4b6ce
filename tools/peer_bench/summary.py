"""From single runs to medians, ranges, ratios and tables."""

import statistics

# What the figures of a system are divided by: the best of these in the same
# round.
GRPC = ("grpc-sync", "grpc-cq", "grpc-callback")
SOCKET = ("socket",)


def both_sides(run, *fields):
    """The sum of what client and server have spent a call."""
    return sum(run[side][field] for side in ("client", "server")
               for field in fields)


COLUMNS = [
    ("p50, us", lambda run: run["p50_us"]),
    ("p99, us", lambda run: run["p99_us"]),
    ("max, us", lambda run: run["max_us"]),
    ("calls/s", lambda run: run["calls_per_s"]),
    ("cpu, us a call", lambda run: both_sides(run, "cpu_us")),
    ("switches a call", lambda run: both_sides(run, "voluntary",
                                               "involuntary")),
    ("late, %", lambda run: 100 * run["late"] / run["calls"]),
]

RATIOS = [
    ("p50 to gRPC", "p50_us", GRPC),
    ("p99 to gRPC", "p99_us", GRPC),
    ("p50 to socket", "p50_us", SOCKET),
]


def figure(value):
    """A number with three digits, or all that stand before the point."""
    if value >= 100:
        return "%.0f" % value
    return ("%.1f" if value >= 10 else "%.2f") % value


def spread(values):
    """Median [least to most], or the one value."""
    if not values:
        return "-"
    least, most = figure(min(values)), figure(max(values))
    median = figure(statistics.median(values))
    return median if least == most else "%s [%s to %s]" % (median, least, most)


def of(runs, **wanted):
    """Those runs that succeeded and are of this row, system or round."""
    return [run for run in runs if "error" not in run
            and all(run[key] == value for key, value in wanted.items())]


def ratios(runs, row, system, field, references):
    """Round by round, what `system` took to what the best reference took."""
    found = []
    for run in of(runs, row=row, system=system):
        others = [other[field] for other in of(runs, row=row,
                                               round=run["round"])
                  if other["system"] in references]
        if others:
            found.append(run[field] / min(others))
    return found


def table(header, lines):
    """Lines of Markdown that can be read as they are."""
    widths = [max(len(line[i]) for line in [header] + lines)
              for i in range(len(header))]

    def laid_out(cells):
        return "| " + " | ".join(
            cell.ljust(width) for cell, width in zip(cells, widths)) + " |"
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([laid_out(header), rule] + list(map(laid_out, lines)))


def p50_table(runs, rows, systems):
    """A line a system, a column a row: the median of a call."""
    return table(
        ["p50, us"] + rows,
        [[system] + [_with_rate(of(runs, row=row, system=system))
                     for row in rows] for system in systems])


def _with_rate(runs):
    cell = spread([run["p50_us"] for run in runs])
    rate = statistics.median([run["calls_per_s"] for run in runs] or [0])
    return cell if not runs else "%s, %s/s" % (cell, figure(rate))


def row_table(runs, row, systems):
    """All that is known of one row, a line a system."""
    lines = []
    for system in systems:
        own = of(runs, row=row, system=system)
        line = [system] + [spread([value(run) for run in own])
                           for _, value in COLUMNS]
        for _, field, references in RATIOS:
            found = ratios(runs, row, system, field, references)
            line.append(figure(statistics.median(found)) if found else "-")
        lines.append(line)
    header = [""] + [name for name, _ in COLUMNS]
    return table(header + [name for name, _, _ in RATIOS], lines)
