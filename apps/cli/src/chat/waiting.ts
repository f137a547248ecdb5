// Asks a person for what a session waits for: consent to a call, the answer to a question, the result of a call that is theirs to make. What they say
// goes to the runtime at once; what they put off waits on.

import type { ChatDesk } from "./follow.ts";
import type { Json, JsonObject } from "everturn";
import type { PendingToolCall } from "everturn/model";
import type { SessionView, TurnHandle } from "everturn/runtime";

import { isEverturnError } from "everturn/model";

import { preformatted, wrap } from "../terminal/flow.ts";
import { renderMarkdown } from "../terminal/markdown.ts";
import { askKey, askLine } from "../terminal/prompt.ts";
import { safeText } from "../terminal/safe-text.ts";
import { plain } from "../terminal/style.ts";

/** `later`: nothing more is said now. `ended`: the person leaves. */
export type Asked = TurnHandle | "later" | "ended" | "nothing";

export async function askWaiting(desk: ChatDesk, id: string): Promise<Asked> {
  for (;;) {
    const view = await desk.sessions.get(id, { messages: 0 });
    if (view === null || view.openTurn !== null) return "nothing";
    const asked = await askNext(desk, id, view).catch((error: unknown) => {
      // Somebody else was first: what is still open is asked again.
      if (!isEverturnError(error) || error.reason !== "conflict") throw error;
      desk.screen.print(`${desk.colours.yellow("Somebody else has answered meanwhile.")}\n`);
      return null;
    });
    if (asked === null) continue;
    if (typeof asked === "string" || asked.turnId !== null) return asked;
  }
}

async function askNext(desk: ChatDesk, id: string, view: SessionView): Promise<Asked> {
  const { pendingToolCalls, pendingQuestion, status } = view.session;
  const open = pendingToolCalls.filter(({ decision }) => decision === null);
  const call = open.find(({ reason }) => reason !== "question");
  if (call !== undefined) {
    return call.reason === "manual"
      ? askResult(desk, id, call, view.version)
      : askConsent(desk, id, call, view.version);
  }
  if (status === "awaiting_user" && pendingQuestion !== null) {
    const asking = open.find(({ question }) => question === pendingQuestion);
    return askQuestion(desk, id, pendingQuestion, asking?.opts ?? {}, view.version);
  }
  // Everything has been said, and nobody has gone on with it.
  return status === "awaiting_tools" && open.length === 0 ? desk.sessions.continue(id) : "nothing";
}

async function askConsent(desk: ChatDesk, id: string, call: PendingToolCall, version: number): Promise<Asked> {
  const { screen, colours, sessions } = desk;
  const { name, arguments: args } = innerOf(call);
  const isLost = call.reason === "outcome_unknown";
  const what = isLost
    ? `${name} was running when its process stopped. Nobody knows whether it happened. Run it again?`
    : `${name} needs your consent:`;
  screen.print(
    `\n${colours.yellow("?")} ${wrap(what, screen.width - 2).replaceAll("\n", "\n  ")}\n${shownArguments(desk, args)}`,
  );
  const mayEdit = call.path.length === 0;
  const keys = `${colours.bold("y")}es, ${colours.bold("n")}o${mayEdit ? `, ${colours.bold("e")}dit` : ""} `;
  for (;;) {
    const key = await askKey(
      screen,
      `  ${keys}${colours.cyan("› ")}`,
      mayEdit ? (["y", "n", "e"] as const) : (["y", "n"] as const),
    );
    if (key === "interrupted") return later(desk);
    if (key === "ended") return "ended";
    if (key === "y") return sessions.decide(id, call.id, { type: "approve", by: "terminal" }, { version });
    if (key === "n") {
      const line = await askLine(screen, { prompt: colours.cyan("  why? (Enter: no reason) › ") });
      if (line.type === "ended") return "ended";
      const reason = line.type === "line" && line.text.trim() !== "" ? { reason: line.text.trim() } : {};
      if (line.type === "interrupted") continue;
      return sessions.decide(id, call.id, { type: "deny", by: "terminal", ...reason }, { version });
    }
    const edited = await askJson(desk, JSON.stringify(args));
    if (edited === null) continue;
    return sessions.decide(id, call.id, { type: "approve", by: "terminal", arguments: edited }, { version });
  }
}

/** Arguments as somebody changed them; `null`: they thought better of it. */
async function askJson({ screen, colours }: ChatDesk, begun: string): Promise<JsonObject | null> {
  let text = begun;
  for (;;) {
    const line = await askLine(screen, { prompt: colours.cyan("  arguments › "), text });
    if (line.type !== "line") return null;
    text = line.text;
    const value = readJson(text);
    if (isObject(value)) return value;
    screen.print(`  ${colours.red("That is no JSON object; Ctrl-C gives up.")}\n`);
  }
}

async function askQuestion(
  desk: ChatDesk,
  id: string,
  question: string,
  opts: JsonObject,
  version: number,
): Promise<Asked> {
  const { screen, colours, sessions } = desk;
  const options = Array.isArray(opts["options"]) ? opts["options"].filter((option) => typeof option === "string") : [];
  const list = options.map((option, index) => `${index + 1}. ${option}`).join("\n");
  const text = renderMarkdown(`${question}${list === "" ? "" : `\n\n${list}`}`, {
    width: screen.width - 2,
    colours: colours.enabled,
    base: { bold: true },
  });
  screen.print(`\n${colours.yellow("?")} ${text.trimEnd().replaceAll("\n", "\n  ")}\n`);
  for (;;) {
    const line = await askLine(screen, { prompt: colours.cyan("  answer › ") });
    if (line.type === "interrupted") return later(desk);
    if (line.type === "ended") return "ended";
    const said = line.text.trim();
    if (said === "") continue;
    // A number stands for what it is before, where something is.
    const chosen = /^\d{1,3}$/.test(said) ? options[Number(said) - 1] : undefined;
    return sessions.reply(id, chosen ?? said, { version });
  }
}

async function askResult(desk: ChatDesk, id: string, call: PendingToolCall, version: number): Promise<Asked> {
  const { screen, colours, sessions } = desk;
  const { name, arguments: args } = innerOf(call);
  screen.print(`\n${colours.yellow("?")} ${name} is yours to run. What was the result?\n${shownArguments(desk, args)}`);
  const line = await askLine(screen, { prompt: colours.cyan("  result (JSON or text) › ") });
  if (line.type === "interrupted") return later(desk);
  if (line.type === "ended") return "ended";
  return sessions.submitToolResults(id, [[call.id, readJson(line.text) ?? line.text]], { version });
}

function later({ screen, colours }: ChatDesk): "later" {
  screen.print(`${colours.dim("  It waits. Say anything to be asked again.")}\n`);
  return "later";
}

/** What really waits: for a tool that runs a turn of its own, the call inside. */
function innerOf(call: PendingToolCall): { readonly name: string; readonly arguments: JsonObject } {
  const inner = call.opts["inner"] ?? null;
  if (call.path.length > 0 && isObject(inner)) {
    const args = inner["arguments"] ?? null;
    const name = typeof inner["name"] === "string" ? inner["name"] : call.name;
    return { name: safeText(`${name} (inside ${call.name})`), arguments: isObject(args) ? args : {} };
  }
  return { name: safeText(call.name), arguments: call.arguments ?? {} };
}

/** All of them, and also what has no shape of its own: nobody consents to what they cannot see. */
function shownArguments({ screen, colours }: ChatDesk, args: JsonObject): string {
  if (Object.keys(args).length === 0) return "";
  const margin = [{ text: "    ", style: plain }];
  const json = JSON.stringify(args, null, 2).replaceAll(
    /\p{Cf}/gu,
    (hidden) => `\\u{${hidden.codePointAt(0)?.toString(16) ?? ""}}`,
  );
  const lines = preformatted(safeText(json), screen.width, { first: margin, rest: margin });
  return `${colours.dim(lines)}\n`;
}

function readJson(text: string): Json {
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return null;
  }
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
