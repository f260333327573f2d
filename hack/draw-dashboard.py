#!/usr/bin/env python3
"""Runs a command that starts the operator, lets Prometheus scrape it, and draws the first row of the dashboard as SVG.

    DWD_BIN=target/debug/dependency-watchdog hack/draw-dashboard.py docs/pictures/dashboard.svg target/debug/bench ...

Prometheus 2.42 or later must be in PATH. The panels, their queries, places and colours are those of
manifests/monitoring/dashboard.json, the alerts those of prometheusrule.yaml next to it. It is drawn as of the last
moment at which a cluster was protected.
"""

import html
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

MONITORING = os.path.join(os.path.dirname(__file__), "../manifests/monitoring")
SCRAPE, POINTS, BEFORE = 1, 150, 120  # seconds; points of a line; seconds that are drawn
COLUMN, ROW, GAP, EDGE, TITLE = 40, 30, 4, 8, 24  # pixels
COLOURS = {
    "blue": "#5794f2", "green": "#56a64b", "orange": "#ff9830", "red": "#e02f44", "yellow": "#f2cc0c", "purple": "#b877d9",
    "dark-orange": "#fa6400", "dark-red": "#c4162a", "light-blue": "#8ab8ff", "text": "var(--text)",
}
PALETTE = ["#56a64b", "#f2cc0c", "#5794f2", "#ff9830", "#e02f44", "#b877d9", "#3274d9", "#96d98d"]
STYLE = """
svg{--back:#f4f5f5;--panel:#ffffff;--text:#1f2328;--soft:#59636e;--edge:#d1d9e0}
@media(prefers-color-scheme:dark){svg{--back:#0d1117;--panel:#161b22;--text:#e6edf3;--soft:#9198a1;--edge:#3d444d}}
text{fill:var(--text);font:11px system-ui,-apple-system,"Segoe UI",sans-serif}
.back{fill:var(--back)}.panel{fill:var(--panel);stroke:var(--edge)}.grid{stroke:var(--edge)}
.title{font-weight:600}.row{font-weight:600;font-size:14px}.soft{fill:var(--soft)}"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Prometheus:
    """One that scrapes the operator at a port, as long as the block runs."""

    def __init__(self, folder, target):
        self.address, self.data = f"127.0.0.1:{free_port()}", os.path.join(folder, "data")
        with open(os.path.join(MONITORING, "prometheusrule.yaml"), encoding="utf-8") as file:
            groups = file.read().split("\nspec:\n")[1]
        rules, self.settings = (os.path.join(folder, name) for name in ("rules.yaml", "prometheus.yaml"))
        with open(rules, "w", encoding="utf-8") as file:
            file.write(re.sub("(?m)^  ", "", groups))
        with open(self.settings, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "global": {"scrape_interval": f"{SCRAPE}s", "scrape_timeout": f"{SCRAPE}s", "evaluation_interval": f"{SCRAPE}s"},
                    "rule_files": [rules],
                    "scrape_configs": [{"job_name": "dwd-prober", "static_configs": [{"targets": [target]}]}],
                },
                file,
            )

    def __enter__(self):
        command = ["prometheus", f"--config.file={self.settings}", f"--storage.tsdb.path={self.data}", f"--web.listen-address={self.address}", "--log.level=error"]
        self.process = subprocess.Popen(command)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]["result"]

    def lines(self, query, start, end):
        """The series of a query, each with its labels and its values by time."""
        step = max(SCRAPE, (end - start) / POINTS)
        answer = self.ask("query_range", query=query, start=start, end=end, step=step)
        return [(it["metric"], [(float(when), float(value)) for when, value in it["values"]]) for it in answer]

    def now(self, query, moment):
        return [(it["metric"], float(it["value"][1])) for it in self.ask("query", query=query, time=moment)]


def text(x, y, words, kind="", anchor="start", extra=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}"{extra}>{html.escape(str(words))}</text>'


def nothing(x, y, width, height):
    return text(x + width / 2, y + height / 2, "none", "soft", "middle")


def queries(panel):
    for target in panel["targets"]:
        query = target["expr"].replace("$__rate_interval", "1m").replace("$__range", "1h").replace("$job", "dwd-.*")
        yield query, target["legendFormat"]


def named(legend, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda it: labels.get(it[1], ""), legend)


def threshold(panel, value):
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return COLOURS[reached[-1]]


def colours(panel, names):
    """By the overrides of the panel, then by the palette."""
    fixed = {}
    for override in panel["fieldConfig"]["overrides"]:
        for it in override["properties"]:
            if it["id"] == "color":
                fixed[override["matcher"]["options"]] = COLOURS[it["value"]["fixedColor"]]
    others = iter(PALETTE * len(names))
    return [fixed.get(name) or next(others) for name in names]


def stat(panel, prometheus, moment, x, y, width, height):
    shown = [(named(legend, labels), value) for query, legend in queries(panel) for labels, value in prometheus.now(query, moment)]
    if not shown:
        yield nothing(x, y, width, height)
    for place, (name, value) in enumerate(shown):
        middle = x + width * (2 * place + 1) / (2 * len(shown))
        number = f' style="font-size:30px;fill:{threshold(panel, value)}"'
        yield text(middle, y + height - (28 if len(shown) > 1 else 20), f"{value:g}", "", "middle", number)
        if len(shown) > 1:
            yield text(middle, y + height - 10, name, "soft", "middle")


def timeseries(panel, prometheus, moment, x, y, width, height):
    start = moment - BEFORE
    found = [(named(legend, labels), values) for query, legend in queries(panel) for labels, values in prometheus.lines(query, start, moment)]
    found = [(name, dict(values)) for name, values in found if any(value for _, value in values)]
    custom = panel["fieldConfig"]["defaults"]["custom"]
    stacked, stepped = custom["stacking"]["mode"] == "normal", custom.get("lineInterpolation") == "stepAfter"
    times = sorted({when for _, values in found for when in values})
    below, bands = dict.fromkeys(times, 0.0), []
    for name, values in found:
        above = {when: values.get(when, 0.0) + (below[when] if stacked else 0) for when in times}
        bands.append((name, dict(below) if stacked else dict.fromkeys(times, 0.0), above))
        below = above
    top = max([1.0] + [value for _, _, above in bands for value in above.values()])
    left, right, high, low = x + 28, x + width - 8, y + 8, y + height - 36
    across = lambda when: left + (right - left) * (when - start) / BEFORE
    up = lambda value: low - (low - high) * value / top
    for part in range(3):
        value = top * part / 2
        yield f'<path class="grid" d="M{left:.0f} {up(value):.1f}H{right:.0f}"/>' + text(left - 4, up(value) + 4, f"{value:g}", "soft", "end")
    for part in range(4):
        yield text(left + (right - left) * part / 3, low + 13, f"{(part - 3) * BEFORE // 3} s" if part < 3 else "now", "soft", ["start", "middle", "middle", "end"][part])
    names = [name for name, _, _ in bands]
    for (name, floor, above), colour in zip(bands, colours(panel, names)):
        ways = []
        for line in (above, floor):
            points, before = [], None
            for when in times:
                if stepped and before is not None:
                    points.append((across(when), up(line[before])))
                points.append((across(when), up(line[when])))
                before = when
            # A point between two of the same height says nothing.
            points = [it for n, it in enumerate(points) if not 0 < n < len(points) - 1 or len({points[n - 1][1], it[1], points[n + 1][1]}) > 1]
            ways.append([f"{a:.1f} {b:.1f}" for a, b in points])
        yield f'<path fill="{colour}" fill-opacity="0.3" d="M{"L".join(ways[0] + ways[1][::-1])}Z"/><path fill="none" stroke="{colour}" d="M{"L".join(ways[0])}"/>'
    place = left
    for name, colour in zip(names, colours(panel, names)):
        if place + 14 + 7 * len(name) > right - 12:
            yield text(place, y + height - 8, "…", "soft")
            break
        yield f'<rect x="{place:.0f}" y="{y + height - 14:.0f}" width="8" height="4" fill="{colour}"/>' + text(place + 12, y + height - 8, name)
        place += 24 + 7 * len(name)
    if not bands:
        yield nothing(x, y, width, height)


def table(panel, prometheus, moment, x, y, width, height):
    rows = sorted({(labels["alertname"].removeprefix("DependencyWatchdog"), labels.get("severity", "")) for query, _ in queries(panel) for labels, _ in prometheus.now(query, moment)})
    for place, (name, severity) in enumerate(rows):
        yield text(x + 10, y + 16 + 18 * place, name) + text(x + width - 10, y + 16 + 18 * place, severity, "soft", "end")
    if not rows:
        yield nothing(x, y, width, height)


def picture(prometheus, moment):
    with open(os.path.join(MONITORING, "dashboard.json"), encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    second = [place for place, panel in enumerate(panels) if panel["type"] == "row"][1]
    drawn, bottom = [], 0
    for panel in panels[:second]:
        at = panel["gridPos"]
        x, y, width, height = EDGE + at["x"] * COLUMN, EDGE + at["y"] * ROW, at["w"] * COLUMN - GAP, at["h"] * ROW - GAP
        bottom = max(bottom, y + height)
        if panel["type"] == "row":
            drawn.append(text(x + 4, y + 18, f"{panel['title']}", "row"))
            continue
        drawn.append(f'<rect class="panel" x="{x}.5" y="{y}.5" width="{width}" height="{height}" rx="3"/>' + text(x + 10, y + 17, panel["title"], "title"))
        draw = {"stat": stat, "timeseries": timeseries, "table": table}[panel["type"]]
        drawn.extend(draw(panel, prometheus, moment, x, y + TITLE, width, height - TITLE))
    width, height = 24 * COLUMN + 2 * EDGE, bottom + EDGE
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="The first row of the dashboard in an outage">
<style>{STYLE}
</style>
<rect class="back" width="{width}" height="{height}" rx="6"/>
{chr(10).join(drawn)}
</svg>
"""


def main():
    if len(sys.argv) < 3 or "DWD_BIN" not in os.environ:
        sys.exit("usage: DWD_BIN=OPERATOR hack/draw-dashboard.py FILE COMMAND [ARGUMENT...]")
    if not shutil.which("prometheus"):
        sys.exit("draw-dashboard: prometheus is not in PATH: install Prometheus 2.42 or later")
    target = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        operator = os.path.join(folder, "operator")
        with open(operator, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{os.path.abspath(os.environ["DWD_BIN"])}" "$@" --metrics-bind-addr={target} --cluster-metrics\n')
        os.chmod(operator, 0o755)
        with Prometheus(folder, target) as prometheus:
            started = time.time()
            subprocess.run(sys.argv[2:], env=os.environ | {"DWD_BIN": operator}, check=True)
            protected = prometheus.lines("sum(dependency_watchdog_protected_clusters) > 0", started, time.time())
            if not protected:
                sys.exit("no cluster was protected")
            drawn = picture(prometheus, protected[0][1][-1][0])
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(drawn)
    print(f"{sys.argv[1]}: {len(drawn) / 1000:.0f} KB")


if __name__ == "__main__":
    main()
