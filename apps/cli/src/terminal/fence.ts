// Code between fences: what opened it, what closes it, and how its lines look.

import type { Margin } from "./flow.ts";
import type { Style } from "./style.ts";

/** A line that begins with more markers than this is text: nobody makes us hold back, or look at again and again, more. */
export const longestMarker = 400;

export type Fence = {
  readonly marker: string;
  readonly indent: number;
  readonly quotes: number;
  readonly margin: Margin;
  readonly language: string;
};

/** Lines of a difference are told apart. */
export function codeLineStyle(language: string, start: string): Style {
  if (language === "diff" && start.startsWith("+")) return { hue: "green" };
  if (language === "diff" && start.startsWith("-")) return { hue: "red" };
  return { hue: "cyan" };
}

export function isClosing(line: string, marker: string): boolean {
  const content = line.trim();
  return content.length >= marker.length && content === marker.charAt(0).repeat(content.length);
}

/** May a line that begins like this still turn out to end the code? */
export function mayClose(start: string, marker: string): boolean {
  return start.length <= longestMarker && new RegExp(`^ {0,3}${marker.charAt(0)}* *$`).test(start);
}
