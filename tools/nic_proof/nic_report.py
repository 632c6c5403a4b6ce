"""The report for people, from the one for programs."""

HEAD = """# Verbena on two RDMA devices{quick}

{verdict}

This report is made to be sent. It contains, of both hosts: the kernel, the
distribution, the processor, versions of packages, names of network interfaces,
and all that `ibv_devinfo -v` says of the RDMA device; what `rdma_doctor` and
the tests said; measurements; and how much the device's counters grew. Addresses
(IP, Ethernet, GIDs, GUIDs), names of hosts and the home folder are replaced.
Please read it before you send it. `report.json` has the same, and more figures.
"""

_LATENCY = "ib_send_lat", "ib_write_lat", "ib_read_lat"
_BANDWIDTH = "ib_send_bw", "ib_write_bw", "ib_read_bw"


def perftest_row(output):
    """The line below the head of perftest's last table, by names; None if
    there is none."""
    head, _, lines = output.rpartition(" #bytes")[2].partition("\n")
    try:
        size, count, *figures = map(float, lines.partition("\n")[0].split())
        row = {"size_bytes": int(size), "iterations": int(count)}
        if "t_typical[usec]" in head:
            _, _, row["p50_us"], row["mean_us"], _, row["p99_us"], _ = figures
            return row
        if "average[Gb/sec]" in head and "MsgRate[Mpps]" in head:
            _, gigabits, millions = figures
            row["bytes_per_s"] = gigabits * 1e9 / 8
            row["messages_per_s"] = millions * 1e6
            return row
    except ValueError:
        pass  # Another number of figures, or words.
    return None


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return "%d %s" % (size // unit, name)
    return "%d B" % size


def number(value):
    """Three significant digits, or all before the point."""
    return "%.0f" % value if value >= 100 else "%.3g" % value


def table(head, rows):
    lines = [head, ["---"] * len(head)] + rows
    return "\n".join("| " + " | ".join(
        str(cell).replace("|", "\\|").replace("\n", " ") for cell in line)
        + " |" for line in lines) + "\n"


def markdown(report):
    steps = {step["name"]: step for step in report["steps"]}
    count = {result: sum(step["result"] == result for step in report["steps"])
             for result in ("passed", "failed", "not run")}
    verdict = "**%d steps passed, %d failed, %d did not run.**" % (
        count["passed"], count["failed"], count["not run"])
    parts = [HEAD.format(quick=" (--quick)" if report["quick"] else "",
                         verdict=verdict),
             "## Steps\n", _steps(report["steps"])]
    found = {name: step["found"] for name, step in steps.items()}
    for title, part in (("Latency of one call, in us", _latencies(found)),
                        ("32 calls at once", _rates(found)),
                        ("Counters", _counters(report["steps"])),
                        ("rdma_doctor", _doctor(found.get("rdma_doctor", {}))),
                        ("Failures", _failures(report["steps"])),
                        ("Hosts", _hosts(found.get("hosts", {})))):
        if part:
            parts += ["## %s\n" % title, part]
    return "\n".join(parts)


def _steps(steps):
    rows = []
    for step in steps:
        found = step["found"]
        reason = step["reason"].partition("\n")[0][:200]
        if "skipped" in found and not reason:
            reason = "%d passed, %d skipped" % (found["passed"],
                                                found["skipped"])
        rows.append([step["name"], step["result"], "%.1f" % step["seconds"],
                     reason])
    return table(["step", "result", "s", ""], rows)


def _columns(found, latencies):
    """(title, {size: row}) of all that measured calls or messages."""
    wanted = 1 if latencies else 32
    for name, words in (("rpc_bench", "polling"),
                        ("rpc_bench --events", "sleeping")):
        results = found.get(name, {}).get("results", [])
        for layer in dict.fromkeys(each["layer"] for each in results):
            yield "%s, %s" % (layer, words), {
                each["size_bytes"]: each for each in results
                if each["layer"] == layer and each["outstanding"] == wanted}
    for name, title in (("verbena_peer", "Verbena, default server"),
                        ("grpc_peer", "gRPC over TCP")):
        yield title, {each["size_bytes"]: each
                      for each in found.get(name, {}).get("rows", [])
                      if each["callers"] == wanted}
    for name in _LATENCY if latencies else _BANDWIDTH:
        yield name, {each["size_bytes"]: each
                     for each in found.get(name, {}).get("rows", [])}


def _measured(found, latencies, cell):
    columns = [each for each in _columns(found, latencies) if each[1]]
    sizes = sorted({size for _, rows in columns for size in rows})
    if not sizes:
        return ""
    return table([""] + [size_name(size) for size in sizes],
                 [[title] + [cell(rows[size], size) if size in rows else ""
                             for size in sizes] for title, rows in columns])


def _latencies(found):
    text = _measured(found, True, lambda row, _: "%s (%s), %s" % tuple(
        number(row.get(name) or 0)
        for name in ("p50_us", "p99_us", "mean_us")))
    return text and ("p50 (p99), mean. `ib_send_lat` and `ib_write_lat` print "
                     "half of a round trip; all others are whole ones.\n\n" +
                     text)


def _rates(found):
    def cell(row, size):
        rate = row.get("calls_per_s") or row.get("messages_per_s") or 0
        volume = row.get("bytes_per_s") or rate * size
        return "%s/s, %s MB/s" % (number(rate), number(volume / 1e6))
    text = _measured(found, False, cell)
    return text and ("Calls, or perftest's messages one way, a second, and "
                     "their bytes one way. The peers' 32 callers are threads "
                     "that block.\n\n" + text)


def _counters(steps):
    rows = [[step["name"], side, name, value] for step in steps
            for side, grown in step["error counters"].items()
            for name, value in sorted(grown.items())]
    errors = ("Counters of errors, losses and congestion that grew. Some tests "
              "cause errors on purpose.\n\n" +
              table(["step", "side", "counter", "by"], rows) if rows else
              "No counter of errors, losses or congestion grew.\n")
    totals = [[side, name, value] for step in steps
              if step["name"] == "counters after"
              for side, grown in step["found"].items()
              for name, value in sorted(grown.items())]
    if totals:
        errors += "\nAll that grew from the first step to the last:\n\n"
        errors += table(["side", "counter", "by"], totals)
    return errors


def _doctor(found):
    # The look at the way to the peer finds the same host once more.
    rows = list(dict.fromkeys(
        (side.partition(",")[0], finding["level"], finding["check"],
         finding["seen"],
         finding["meaning"] + (finding["mend"] and ": `%s`" % finding["mend"]))
        for side, report in found.items()
        for finding in report["findings"] if finding["level"] != "ok"))
    calls = [[side, each["device"], each["fabric"],
              number(each["connect_us"]), number(each["median_us"])]
             for side, report in found.items()
             for each in report["measurements"]]
    return "\n".join(
        ([table(["side", "level", "check", "seen", "means, mend"], rows)]
         if rows else []) +
        ([table(["side", "device", "fabric", "connects in us", "median us"],
                calls)] if calls else []))


def _failures(steps):
    return "\n".join(
        "### %s\n\n```\n%s\n```\n" % (step["name"], "\n".join(
            [step["reason"]] + step["found"].get("failures", []) +
            [step["found"].get("output", "")]).replace("```", "'''"))
        for step in steps if step["result"] == "failed")


def _hosts(found):
    parts = []
    for side, facts in found.items():
        parts += ["### The %s side\n" % side, table(["", ""], [
            [name, value] for name, value in facts.items()
            if "\n" not in value])]
        parts += ["```\n%s\n```\n" % value for value in facts.values()
                  if "\n" in value]
    return "\n".join(parts)
