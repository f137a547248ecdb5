// How the components write numbers, times and names. The functions are public, for what a page shows beside them.

import type { Usage } from "../../core/model/internal.ts";

/** A duration as a short text: `412 ms`, `1.9 s`, `4 m 12 s`, `3 h 5 m`, `6 d`. */
export function durationText(ms: number): string {
  if (ms < 0) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return withRest(Math.floor(seconds / 60), "m", seconds % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return withRest(Math.floor(minutes / 60), "h", minutes % 60, "m");
  return `${Math.round(minutes / 1440)} d`;
}

function withRest(count: number, unit: string, rest: number, restUnit: string): string {
  return rest === 0 ? `${count} ${unit}` : `${count} ${unit} ${rest} ${restUnit}`;
}

/** A cost in US dollars as a short text: `$0.0042`, `$1.91`; `null`: unknown, an empty text. */
export function costText(dollars: number | null): string {
  if (dollars === null) return "";
  if (dollars === 0) return "$0";
  const digits = dollars >= 10 ? 2 : dollars >= 0.01 ? 3 : 4;
  return dollars < 0.0001 ? "< $0.0001" : `$${dollars.toFixed(digits)}`;
}

/** Creating a format takes longer than using it many times. */
const countFormat = new Intl.NumberFormat("en-US");

/** A whole number with separators: `1,842`. */
export function countText(value: number): string {
  return countFormat.format(value);
}

/**
 * Tokens and cost of a model call as short texts: the input with the share that was read from a cache
 * (`1,842 · 91 %`), the output with the cost of the call (`58 · $0.0042`). Unknown counts are a dash.
 */
export function usageTexts(
  usage: Pick<Usage, "inputTokens" | "cachedInputTokens" | "outputTokens" | "totalCost"> | null,
): { readonly input: string; readonly output: string } {
  const { inputTokens = null, cachedInputTokens = null, outputTokens = null, totalCost = null } = usage ?? {};
  const hasShare = cachedInputTokens !== null && inputTokens !== null && inputTokens > 0;
  const input = [
    inputTokens === null ? "–" : countText(inputTokens),
    ...(hasShare ? [`${Math.round((cachedInputTokens / inputTokens) * 100)} %`] : []),
  ];
  const output = [
    outputTokens === null ? "–" : countText(outputTokens),
    ...(totalCost === null ? [] : [costText(totalCost)]),
  ];
  return { input: input.join(" · "), output: output.join(" · ") };
}

/**
 * Control characters, line separators, and the marks that change the direction of text (bidirectional overrides and
 * isolates).
 */
const invisible = /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/**
 * A name of a tool, model or process on one line, which cannot reorder the text around it: control characters are
 * escaped as `\u202e`, and line breaks and tabs become spaces.
 */
export function visibleName(name: string): string {
  return name
    .replace(/\s*[\n\r\t]\s*/g, " ")
    .replace(invisible, (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`);
}
