// Small texts that several commands print: times, tokens, prices, tables, values on one line.

import type { Usage } from "everturn";

import { cellWidth, fit, pad } from "../terminal/cells.ts";
import { safeLine } from "../terminal/safe-text.ts";

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60
    ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** How long ago something was. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/** What something cost, as far as it is known; empty when nothing is. */
export function spent({ inputTokens, outputTokens, cachedInputTokens, totalCost }: Usage): string {
  const tokens =
    inputTokens === null && outputTokens === null ? [] : [`${inputTokens ?? 0} in, ${outputTokens ?? 0} out`];
  const cached = cachedInputTokens === null || cachedInputTokens === 0 ? [] : [`${cachedInputTokens} cached`];
  return [...tokens, ...cached, ...(totalCost === null ? [] : [price(totalCost)])].join(", ");
}

function price(dollars: number): string {
  return dollars === 0 || dollars >= 0.01 ? `$${dollars.toFixed(2)}` : `$${dollars.toPrecision(2)}`;
}

/** A value on one line, cut where it is long, with nothing in it that a terminal would act on. */
export function brief(value: unknown, width = 80): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return fit(safeLine(text), width);
}

/** Rows under each other, each column as wide as its widest cell; the last one is cut to what is left of the line. */
export function table(rows: readonly (readonly string[])[], columns: number): readonly string[] {
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((row) => cellWidth(row[index] ?? ""))));
  return rows.map((row) => {
    const cells = row.map((cell, index) => (index === row.length - 1 ? cell : pad(cell, widths[index] ?? 0)));
    const line = cells.join("  ");
    return (Number.isFinite(columns) ? fit(line, columns) : line).trimEnd();
  });
}
