"""Draws the comparison as an SVG chart for light and dark pages.

One small panel per row, one bar per family of peers; the shortest bar is the best. A bar that would be far longer than
the others is cut, and its end is drawn open; the number next to it is always the true one.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from bench.race import Line
from bench.report import Comparison, number

ACROSS = 3
PANEL_WIDTH, GAP, MARGIN = 380, 28, 28
BAR, STEP, HEAD = 14, 20, 34
NAMES_WIDTH, NUMBER_WIDTH = 142, 76
TOP = 92
OPEN_END = 7

LIGHT = {
    "back": "#ffffff",
    "ink": "#1f2328",
    "faint": "#59636e",
    "line": "#d1d9e0",
    "ours": "#0f766e",
    "other": "#a8b3bf",
}
DARK = {
    "back": "#0d1117",
    "ink": "#f0f6fc",
    "faint": "#9198a1",
    "line": "#3d444d",
    "ours": "#2dd4bf",
    "other": "#57606a",
}


def _colours(of: dict[str, str]) -> str:
    """Colours without CSS variables, which not every SVG viewer supports."""
    return (
        f"text {{ fill: {of['ink']} }} .note, .name:not(.ours), .number:not(.ours) {{ fill: {of['faint']} }} "
        f".bar {{ fill: {of['other']} }} .bar.ours {{ fill: {of['ours']} }} "
        f".back {{ fill: {of['back']} }} .axis {{ stroke: {of['line']} }}"
    )


STYLE = f"""
  text {{ font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif }}
  .title {{ font-size: 20px; font-weight: 600 }}
  .head {{ font-size: 13px; font-weight: 600 }}
  .name {{ text-anchor: end }}
  .number {{ font-variant-numeric: tabular-nums }}
  .ours {{ font-weight: 600 }}
  {_colours(LIGHT)}
  @media (prefers-color-scheme: dark) {{ {_colours(DARK)} }}
"""


@dataclass(frozen=True)
class Bar:
    """One bar of a panel."""

    name: str
    value: float
    label: str
    ours: bool


def svg(found: Comparison) -> str:
    """The whole chart."""
    panels = [(line, _bars(found, line)) for line in found.lines]
    panels = [(line, bars) for line, bars in panels if bars]
    parts, y = [], TOP
    for start in range(0, len(panels), ACROSS):
        row_of_panels = panels[start : start + ACROSS]
        for number_across, (line, bars) in enumerate(row_of_panels):
            parts.append(_panel(line, bars, MARGIN + number_across * (PANEL_WIDTH + GAP), y))
        y += HEAD + STEP * max(len(bars) for _, bars in row_of_panels) + GAP
    width = 2 * MARGIN + ACROSS * PANEL_WIDTH + (ACROSS - 1) * GAP
    return _document(found, width, max(y, TOP) + MARGIN - GAP, parts)


def _bars(found: Comparison, line: Line) -> list[Bar]:
    bars = []
    for family in found.families:
        cell = found.best_of(line, family)
        if cell.cpu is not None:
            index_size = f" (+{number(cell.sizes.indexes / 1e6)})" if cell.sizes and cell.sizes.indexes else ""
            bars.append(Bar(family, cell.cpu, number(cell.cpu) + index_size, family == "colonnade"))
    return sorted(bars, key=lambda bar: bar.value)


def _longest(bars: list[Bar]) -> float:
    """The value of a bar of full length: values far above the median are cut."""
    middle = bars[len(bars) // 2].value
    ours = max((bar.value for bar in bars if bar.ours), default=0.0)
    return min(bars[-1].value, max(2.5 * middle, 1.1 * ours if ours <= 4 * middle else 0.0)) or 1.0


def _panel(line: Line, bars: list[Bar], x: int, y: int) -> str:
    unit = "" if line.row.key == "size" else "ms"  # the title of that row already names the unit
    zero, room, longest = x + NAMES_WIDTH, PANEL_WIDTH - NAMES_WIDTH - NUMBER_WIDTH, _longest(bars)
    parts = [
        f'<text class="head" x="{x}" y="{y + 12}">{escape(line.heading)} <tspan class="note">{unit}</tspan></text>'
    ]
    for place, bar in enumerate(bars):
        parts += _bar(bar, zero, y + HEAD - 8 + place * STEP, room, longest)
    bottom = y + HEAD - 10 + len(bars) * STEP
    parts.append(f'<line class="axis" x1="{zero}" y1="{y + HEAD - 12}" x2="{zero}" y2="{bottom}"/>')
    return "\n".join(parts)


def _bar(bar: Bar, x: int, y: int, room: int, longest: float) -> list[str]:
    ours = " ours" if bar.ours else ""
    length = max(1.5, room * min(1.0, bar.value / longest))
    text_y = y + BAR - 3
    drawn = f'<rect class="bar{ours}" x="{x}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>'
    if bar.value > longest:
        end, middle, low = x + length, y + BAR / 2, y + BAR
        notch = f"H{end:.1f}L{end - OPEN_END:.1f},{middle:.1f}L{end:.1f},{low}H{x}Z"
        drawn = f'<path class="bar{ours}" d="M{x},{y}{notch}"/>'
    return [
        f'<text class="name{ours}" x="{x - 8}" y="{text_y}">{escape(bar.name)}</text>',
        drawn,
        f'<text class="number{ours}" x="{x + length + 6:.1f}" y="{text_y}">{escape(bar.label)}</text>',
    ]


def _document(found: Comparison, width: int, height: int, parts: list[str]) -> str:
    title = f"colonnade and its peers, {found.workload.rows:,} rows"
    note = (
        f"CPU time (user + system, all threads) of one call, best of {found.repeats} alternating warm runs, "
        f"{found.threads} threads for every peer. Shorter is better; bars with an open end are cut."
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-labelledby="title note">',
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{width}" height="{height}" rx="8"/>',
            f'<text class="title" id="title" x="{MARGIN}" y="44">{escape(title)}</text>',
            f'<text class="note" id="note" x="{MARGIN}" y="66">{escape(note)}</text>',
            *parts,
            "</svg>\n",
        ]
    )
