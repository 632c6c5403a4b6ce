"""Whether one revision is worse than another, and the tables that say so."""

import dataclasses
import statistics

import summary

# With fewer rounds ranges that do not overlap mean nothing.
ROUNDS_TO_JUDGE = 3

# With fewer rounds every run counts; with as many, one may stand out.
ROUNDS_WITH_AN_OUTLIER = 4

# Calls of one side beyond a percentile, below which it says nothing.
CALLS_BEYOND_MIN = 20

WORSE = "WORSE"
BETTER = "better"


@dataclasses.dataclass(frozen=True)
class Metric:
    """A figure of a run, and how much of it is noise."""
    name: str
    field: str
    threshold: float  # How much worse a median may be, as a part of it.
    quantile: float = 0.0  # Of a percentile, which.
    more_is_better: bool = False
    latency: bool = True


# Code that no call runs moves the code behind it, which alone has changed the
# p50 and the rate of the shortest calls by up to 7 %, in all rounds alike.
METRICS = (
    Metric("p50, us", "p50_us", 0.08, quantile=0.5),
    Metric("p99, us", "p99_us", 0.25, quantile=0.99),
    Metric("p99.9, us", "p999_us", 0.50, quantile=0.999),
    Metric("mean, us", "mean_us", 0.10),
    Metric("calls/s", "calls_per_s", 0.08, more_is_better=True, latency=False),
    Metric("cpu, us a call", "cpu_us", 0.10, latency=False),
)


def above(high, low):
    """Whether the ranges do not overlap; one run of all may stand out."""
    high, low = sorted(high), sorted(low)
    if min(len(high), len(low)) < ROUNDS_TO_JUDGE:
        return False
    if high[0] > low[-1]:
        return True
    return (min(len(high), len(low)) >= ROUNDS_WITH_AN_OUTLIER
            and (high[1] > low[-1] or high[0] > low[-2]))


def compare(metric, new, old):
    """WORSE, BETTER, or "" if the values do not differ beyond the noise."""
    if not new or not old:
        return ""
    for high, low, verdict in ((new, old, WORSE), (old, new, BETTER)):
        if (statistics.median(high) >
                statistics.median(low) * (1 + metric.threshold)
                and above(high, low)):
            if metric.more_is_better:
                return BETTER if verdict == WORSE else WORSE
            return verdict
    return ""


def values(metric, row, runs):
    """The metric of each of `runs`, which are both sides' of `row`, by side."""
    good = [run for run in runs if "error" not in run]
    by_rate = (metric.field == "mean_us" and row.one_at_a_time
               and any(run.get("mean_us") is None for run in good))
    found = {"new": [], "old": []}
    for run in good:
        if metric.latency and row.one_way:
            continue
        # A revision that prints no mean: that of both sides is the time from
        # one call to the next, so that like is compared with like.
        value = (1e6 / run["calls_per_s"] if by_rate
                 else run.get(metric.field))
        if value is not None:
            found[run["side"]].append(value)
    return found


def enough_calls(metric, runs):
    """Whether both sides made so many calls that the percentile is known."""
    for side in ("new", "old"):
        calls = sum(run["calls_per_s"] * run["seconds"] for run in runs
                    if run["side"] == side and "error" not in run)
        if calls * (1 - metric.quantile) < CALLS_BEYOND_MIN:
            return False
    return True


def of_look(metric, row, runs):
    """The verdict over the runs of one look."""
    if metric.quantile and not enough_calls(metric, runs):
        return ""
    found = values(metric, row, runs)
    return compare(metric, found["new"], found["old"])


def of(metric, row, runs):
    """The verdict over all runs of a row: worse means worse in every look."""
    runs = [run for run in runs if run["row"] == row.name]
    first, second = ([run for run in runs if run["look"] == look]
                     for look in (1, 2))
    verdict = of_look(metric, row, first)
    looked_twice = {run["side"] for run in second
                    if "error" not in run} == {"new", "old"}
    if verdict == WORSE and looked_twice:
        return of_look(metric, row, second)
    return verdict


def worse_rows(rows, runs):
    """Those that are worse in any metric."""
    return [row for row in rows
            if any(of(metric, row, runs) == WORSE for metric in METRICS)]


def failed_rows(rows, runs):
    """Those in which a run of the new side failed."""
    failed = {run["row"] for run in runs
              if run["side"] == "new" and "error" in run}
    return [row for row in rows if row.name in failed]


def _ratio(found):
    new, old = (statistics.median(found[side]) if found[side] else 0
                for side in ("new", "old"))
    return "%.2f" % (new / old) if new and old else "-"


def details(rows, runs):
    """A line for each row and metric: medians and ranges of both sides."""
    lines = []
    for row in rows:
        own = [run for run in runs if run["row"] == row.name]
        title = row.name
        for metric in METRICS:
            found = values(metric, row, own)
            if not found["new"] and not found["old"]:
                continue
            lines.append([title, metric.name, summary.spread(found["new"]),
                          summary.spread(found["old"]), _ratio(found),
                          of(metric, row, runs)])
            title = ""
    return summary.table(["row", "metric", "new", "old", "new/old", ""], lines)


def overview(rows, runs):
    """A line for each row: new/old of each metric, and what is marked."""
    lines = []
    failed = failed_rows(rows, runs)
    for row in rows:
        own = [run for run in runs if run["row"] == row.name]
        line = [row.name]
        for metric in METRICS:
            line.append(" ".join(filter(None, (
                _ratio(values(metric, row, own)), of(metric, row, runs)))))
        note = "FAILED" if row in failed else ""
        if not any(run["side"] == "old" and "error" not in run for run in own):
            note = note or "new only"
        lines.append(line + [note])
    header = ["new/old"] + [metric.name.partition(",")[0]
                            for metric in METRICS]
    return summary.table(header + [""], lines)
