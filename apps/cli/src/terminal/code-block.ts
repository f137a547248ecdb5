// Markdown code blocks (CommonMark "fenced code blocks", section 4.5): the lines that open and close them, and the
// style of their lines.

import type { Margin } from "./flow.ts";
import type { Style } from "./style.ts";

/**
 * A line that begins with more marker characters than this is text. The limit bounds the text that is held back; each
 * character is tested against all held text, so a line of only markers would otherwise take quadratic time.
 */
export const longestMarker = 400;

/** An open code block. */
export type CodeBlock = {
  /** The backticks or tildes that opened it; at least as many close it. */
  readonly marker: string;
  /** The indentation of the opening line, which is removed from the lines of code. */
  readonly indent: number;
  /** The depth of block quotes around it. */
  readonly quotes: number;
  readonly margin: Margin;
  readonly language: string;
};

/** The style of a line of code. Added and removed lines of a `diff` are green and red. */
export function codeLineStyle(language: string, start: string): Style {
  if (language === "diff" && start.startsWith("+")) return { hue: "green" };
  if (language === "diff" && start.startsWith("-")) return { hue: "red" };
  return { hue: "cyan" };
}

/** Returns whether a complete line closes the code block. */
export function isClosing(line: string, marker: string): boolean {
  const content = line.trim();
  return content.length >= marker.length && content === marker.charAt(0).repeat(content.length);
}

/** Returns whether a line that begins like this can still become the closing line. */
export function mayClose(start: string, marker: string): boolean {
  return start.length <= longestMarker && new RegExp(`^ {0,3}${marker.charAt(0)}* *$`).test(start);
}
