// Text formatting that several commands share: durations, token counts, prices, tables, values on one line.

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

/** Formats an age in its largest unit: `5s`, `12m`, `3h`, `2d`. */
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

/** Formats tokens and cost of a usage; empty if none is known. */
export function spent({ inputTokens, outputTokens, cachedInputTokens, totalCost }: Usage): string {
  const tokens =
    inputTokens === null && outputTokens === null ? [] : [`${inputTokens ?? 0} in, ${outputTokens ?? 0} out`];
  const cached = cachedInputTokens === null || cachedInputTokens === 0 ? [] : [`${cachedInputTokens} cached`];
  return [...tokens, ...cached, ...(totalCost === null ? [] : [price(totalCost)])].join(", ");
}

function price(dollars: number): string {
  return dollars === 0 || dollars >= 0.01 ? `$${dollars.toFixed(2)}` : `$${dollars.toPrecision(2)}`;
}

/**
 * Formats a value on one line of at most `width` cells. Control characters are replaced, so it cannot inject terminal
 * escape sequences.
 */
export function brief(value: unknown, width = 80): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return fit(safeLine(text), width);
}

/** Formats rows as a table. Each column is as wide as its widest cell; lines are cut at `columns`. */
export function table(rows: readonly (readonly string[])[], columns: number): readonly string[] {
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((row) => cellWidth(row[index] ?? ""))));
  return rows.map((row) => {
    const cells = row.map((cell, index) => (index === row.length - 1 ? cell : pad(cell, widths[index] ?? 0)));
    const line = cells.join("  ");
    return (Number.isFinite(columns) ? fit(line, columns) : line).trimEnd();
  });
}

/**
 * Quotes a word for a POSIX shell, if necessary: ids and paths in suggested commands may contain spaces, `;` or `$(…)`.
 */
export function shellQuote(word: string): string {
  return /^[\w@%+=:,./\\-]+$/.test(word) ? word : `'${safeLine(word).replaceAll("'", String.raw`'\''`)}'`;
}
