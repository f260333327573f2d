#!/usr/bin/env python3
"""Runs a command in a terminal and draws what it prints as an animated SVG, without any JavaScript.

    hack/record-demo.py docs/demo.svg LAB demo

Lines appear in the order and with the pauses in which they were printed, but for the limits below, and the picture
scrolls like a terminal. Some steps are left out. Readers that ask for less motion see the end.
"""

import html
import os
import pty
import re
import sys
import time

COLUMNS, ROWS, LINE, CHAR, MARGIN = 110, 32, 18, 7.85, 16
SHORTEST, LONGEST, END = 0.12, 2.5, 12.0  # seconds: between two lines, and for how long the end stays
LEFT_OUT = ["1.", "2.", "5.", "6."]  # steps: the start, a healthy cluster, its API server's outage, the second start
COLOURS = {"1": "bold", "32": "green", "36": "cyan"}


def record(command):
    """The lines that the command prints, each with the second at which it did."""
    lines, started, rest = [], time.monotonic(), b""

    def read(descriptor):
        nonlocal rest
        data = os.read(descriptor, 65536)
        *whole, rest = (rest + data).split(b"\n")
        now = time.monotonic() - started
        lines.extend((now, line.decode(errors="replace").rstrip("\r")) for line in whole)
        return data

    status = os.waitstatus_to_exitcode(pty.spawn(command, read))
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with exit code {status}")
    return lines


def shortened(lines):
    """Without the steps that are left out, and neither too fast nor too slow."""
    kept, clock, before, shown = [], 0.0, None, True
    for moment, line in lines:
        heading = re.match(r"(?:\x1b\[1m)?(\d+\.) ", line)
        shown = heading[1] not in LEFT_OUT if heading else shown
        if shown and (kept or line.strip()):
            clock += max(SHORTEST, min(moment - before, LONGEST)) if kept else 0
            kept.append((clock, line))
        before = moment
    return kept


def spans(line):
    """The line as text elements of SVG, cut to the width."""
    parts, style, used = [], "", 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            style = COLOURS.get(part[2:-1], "")
            continue
        if used + len(part) > COLUMNS:
            part = part[: max(0, COLUMNS - used - 1)] + "…" * (used < COLUMNS)
        used += len(part)
        if part:
            text = html.escape(part)
            parts.append(f'<tspan class="{style}">{text}</tspan>' if style else text)
    return "".join(parts)


def svg(lines):
    total = lines[-1][0] + END
    percent = lambda moment: f"{100 * moment / total:.2f}%"
    width, height = COLUMNS * CHAR + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    texts, appear, scroll = [], [], ["0%{transform:none}"]
    for number, (moment, line) in enumerate(lines):
        texts.append(f'<text class="l{number}" y="{(number + 1) * LINE - 4}">{spans(line)}</text>' if line.strip() else "")
        appear.append(f".l{number}{{animation-name:a{number}}}@keyframes a{number}{{0%{{opacity:0}}{percent(moment)}{{opacity:1}}}}" if line.strip() else "")
        if number >= ROWS:
            scroll.append(f"{percent(moment)}{{transform:translateY({(ROWS - 1 - number) * LINE}px)}}")
    last = max(0, len(lines) - ROWS) * -LINE
    style = f"""
svg{{--back:#ffffff;--text:#1f2328;--green:#1a7f37;--cyan:#0969da;--edge:#d1d9e0}}
@media(prefers-color-scheme:dark){{svg{{--back:#0d1117;--text:#e6edf3;--green:#3fb950;--cyan:#58a6ff;--edge:#3d444d}}}}
rect{{fill:var(--back);stroke:var(--edge)}}
text{{fill:var(--text);font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;animation:{total:.1f}s step-end infinite}}
.bold{{font-weight:700}}.green{{fill:var(--green)}}.cyan{{fill:var(--cyan)}}
.roll{{animation:roll {total:.1f}s step-end infinite;transform:translateY({last}px)}}
@keyframes roll{{{"".join(scroll)}}}
{"".join(appear)}
@media(prefers-reduced-motion){{text,.roll{{animation:none}}}}"""
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" aria-label="A recording of make demo">
<style>{style}
</style>
<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>
<svg x="{MARGIN}" y="{MARGIN}" width="{COLUMNS * CHAR:.0f}" height="{ROWS * LINE}"><g class="roll">
{chr(10).join(text for text in texts if text)}
</g></svg>
</svg>
"""


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: hack/record-demo.py FILE COMMAND [ARGUMENT...]")
    os.environ.update(COLUMNS=str(COLUMNS), LINES=str(ROWS))
    picture = svg(shortened(record(sys.argv[2:])))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(picture)
    print(f"{sys.argv[1]}: {len(picture) / 1000:.0f} KB")
