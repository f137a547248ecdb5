// Renders tool calls, one line each: while they run, and when they are completed.

import type { Colours } from "../terminal/style.ts";
import type { Json, JsonObject, ToolOutcome } from "everturn";

import { visibleText } from "everturn";

import { brief, duration } from "../commands/text.ts";
import { fit } from "../terminal/cells.ts";
import { safeLine } from "../terminal/safe-text.ts";
import { spinner } from "../terminal/spinner.ts";

export type RunningTool = {
  readonly name: string;
  readonly arguments: JsonObject;
  readonly startedAt: number;
  readonly progress: Json;
};

/** The largest number of running calls that are shown. */
const mostShown = 6;

/** The lines of running calls, with their time and progress. */
export function runningLines(
  tools: readonly RunningTool[],
  now: number,
  width: number,
  colours: Colours,
): readonly string[] {
  const shown = tools.slice(0, tools.length > mostShown ? mostShown - 1 : mostShown);
  const lines = shown.map((tool) => {
    const progress = progressText(tool.progress);
    const parts = [duration(Math.max(0, now - tool.startedAt)), ...(progress === "" ? [] : [progress])];
    const text = `${calledText(tool.name, tool.arguments, colours)} ${colours.dim(parts.join(" · "))}`;
    return fit(`${colours.cyan(spinner(now))} ${text}`, width - 1);
  });
  const hidden = tools.length - shown.length;
  return hidden === 0 ? lines : [...lines, colours.dim(`  and ${hidden} more`)];
}

/** The name of a tool and its arguments. */
export function calledText(name: string, args: JsonObject, colours: Colours): string {
  const argsText = argumentsText(args);
  return colours.bold(safeLine(name)) + (argsText === "" ? "" : ` ${colours.dim(argsText)}`);
}

function argumentsText(args: JsonObject): string {
  return fit(
    Object.entries(args)
      .map(([name, value]) => `${safeLine(visibleText(name))}: ${brief(visible(value), 30)}`)
      .join(", "),
    60,
  );
}

/**
 * A value whose invisible characters are replaced by their code points, as in the prompt that asked for the approval of
 * the call.
 */
function visible(value: Json): string {
  return visibleText(typeof value === "string" ? value : JSON.stringify(value));
}

/** The progress of a tool: its `message`, `done` of `total`, or the value itself. */
function progressText(progress: Json): string {
  if (progress === null) return "";
  if (typeof progress !== "object" || isList(progress)) return brief(progress, 40);
  const { done, total, message } = progress;
  if (typeof message === "string") return brief(message, 40);
  return typeof done === "number" && typeof total === "number" ? `${done} of ${total}` : brief(progress, 40);
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

export type DoneTool = {
  readonly name: string;
  readonly arguments: JsonObject;
  readonly outcome: ToolOutcome;
  readonly durationMs: number | null;
};

/** The line of a completed call; empty for a call that asks the user, because the question is shown instead. */
export function doneLine(
  { name, arguments: args, outcome, durationMs }: DoneTool,
  width: number,
  colours: Colours,
): string {
  const time = durationMs === null ? [] : [colours.dim(duration(durationMs))];
  const line = (sign: string, details: readonly string[]): string =>
    fit([sign, calledText(name, args, colours), ...details, ...time].join(" "), width);
  switch (outcome.type) {
    case "success": {
      const room = width - 40;
      const value = room < 12 || outcome.value === null ? "" : brief(outcome.value, Math.min(60, room));
      const details = [
        `${calledText(name, args, colours)}`,
        ...time,
        ...(value === "" ? [] : [colours.dim(`→ ${value}`)]),
      ];
      return fit([colours.green("✓"), ...details].join(" "), width);
    }
    case "failure": {
      const { reason, message } = outcome.failure;
      return line(colours.red("✗"), [colours.red(brief(message === "" ? reason : message, 80))]);
    }
    case "cancelled":
      return line(colours.red("✗"), [colours.dim("cancelled")]);
    case "halt":
      return line(colours.yellow("■"), [colours.dim(`stopped the turn: ${brief(outcome.reason)}`)]);
    case "ask_user":
      return "";
  }
}
