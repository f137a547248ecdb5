// Human approval and answers in the chat: asks the user for what the session waits for, which is the approval of a call, the answer to a question, or the
// result of a manual call. An answer is a line that Enter submits. It is stored immediately; Ctrl-C postpones it and the session keeps waiting.
//
// Answers carry the version of the session that was shown (compare-and-swap), so that an answer given elsewhere meanwhile is not overwritten.

import type { ChatContext } from "./follow.ts";
import type { Json, JsonObject } from "everturn";
import type { PendingToolCall } from "everturn/model";
import type { SessionView, TurnHandle } from "everturn/runtime";

import { isEverturnError } from "everturn/model";

import { preformatted, wrap } from "../terminal/flow.ts";
import { renderMarkdown } from "../terminal/markdown.ts";
import { askLine } from "../terminal/prompt.ts";
import { safeText } from "../terminal/safe-text.ts";
import { plain } from "../terminal/style.ts";

/** The turn that the answers started; `later`: postponed; `ended`: the user exits; `nothing`: nothing is pending. */
export type PendingResult = TurnHandle | "later" | "ended" | "nothing";

/** Asks for pending answers one by one, until a turn starts or none is left. */
export async function askPending(context: ChatContext, id: string): Promise<PendingResult> {
  for (;;) {
    const view = await context.sessions.get(id, { messages: 0 });
    if (view === null || view.openTurn !== null) return "nothing";
    const result = await askNext(context, id, view).catch((error: unknown) => {
      // The session has changed since it was shown: ask again for what is still pending.
      if (!isEverturnError(error) || error.reason !== "conflict") throw error;
      context.screen.print(`${context.colours.yellow("This was answered elsewhere in the meantime.")}\n`);
      return null;
    });
    if (result === null) continue;
    if (typeof result === "string" || result.turnId !== null) return result;
  }
}

async function askNext(context: ChatContext, id: string, view: SessionView): Promise<PendingResult> {
  const { pendingToolCalls, pendingQuestion, status } = view.session;
  const open = pendingToolCalls.filter(({ decision }) => decision === null);
  const call = open.find(({ reason }) => reason !== "question");
  if (call !== undefined) {
    return call.reason === "manual"
      ? askResult(context, id, call, view.version)
      : askApproval(context, id, call, view.version);
  }
  if (status === "awaiting_user" && pendingQuestion !== null) {
    const asking = open.find(({ question }) => question === pendingQuestion);
    return askQuestion(context, id, pendingQuestion, asking?.opts ?? {}, view.version);
  }
  // Every call has an answer, but no turn was started with them.
  return status === "awaiting_tools" && open.length === 0 ? context.sessions.continue(id) : "nothing";
}

async function askApproval(
  context: ChatContext,
  id: string,
  call: PendingToolCall,
  version: number,
): Promise<PendingResult> {
  const { screen, colours, sessions } = context;
  const { name, arguments: args } = innerOf(call);
  const isLost = call.reason === "outcome_unknown";
  const what = isLost
    ? `${name} was running when its process stopped. It is unknown whether it took effect. Run it again?`
    : `${name} needs your approval:`;
  screen.print(
    `\n${colours.yellow("?")} ${wrap(what, screen.width - 2).replaceAll("\n", "\n  ")}\n${shownArguments(context, args)}`,
  );
  const mayEdit = call.path.length === 0;
  const choices = `${colours.bold("y")}es, ${colours.bold("n")}o [reason]${mayEdit ? `, ${colours.bold("e")}dit` : ""} `;
  for (;;) {
    const line = await askLine(screen, { prompt: `  ${choices}${colours.cyan("› ")}` });
    if (line.type === "interrupted") return later(context);
    if (line.type === "ended") return "ended";
    const answer = parseApproval(line.text);
    switch (answer.type) {
      case "approve":
        return sessions.decide(id, call.id, { type: "approve", by: "terminal" }, { version });
      case "deny": {
        const reason = answer.reason === "" ? {} : { reason: answer.reason };
        return sessions.decide(id, call.id, { type: "deny", by: "terminal", ...reason }, { version });
      }
      case "edit": {
        if (!mayEdit) {
          screen.print(`  ${colours.red("The arguments of a call inside another call cannot be edited.")}\n`);
          break;
        }
        const edited = await askJson(context, JSON.stringify(args));
        if (edited === null) break;
        return sessions.decide(id, call.id, { type: "approve", by: "terminal", arguments: edited }, { version });
      }
      case "unclear": {
        const words = mayEdit ? "yes, no or edit" : "yes or no";
        screen.print(`  ${colours.red(`Type ${words} and press Enter; Ctrl-C postpones the decision.`)}\n`);
      }
    }
  }
}

type ApprovalAnswer =
  | { readonly type: "approve" | "edit" | "unclear" }
  | { readonly type: "deny"; readonly reason: string };

/**
 * Parses the typed answer to an approval: `y`, `yes`, `n`, `no`, `e`, `edit` in any case, and `no` may be followed by a reason for the model. Only
 * a whole line decides: a single key would approve a call while the user is still typing a message, and would leave the rest of the word as input
 * for the next prompt. An empty line decides nothing.
 */
export function parseApproval(text: string): ApprovalAnswer {
  const answer = text.trim();
  if (/^y(?:es)?$/i.test(answer)) return { type: "approve" };
  if (/^e(?:dit)?$/i.test(answer)) return { type: "edit" };
  const denied = /^no?(?:$|[\s,.:;]+(?<reason>.*)$)/is.exec(answer);
  return denied === null ? { type: "unclear" } : { type: "deny", reason: denied.groups?.["reason"] ?? "" };
}

/** Asks for edited arguments; `null`: the user gave up. */
async function askJson({ screen, colours }: ChatContext, initial: string): Promise<JsonObject | null> {
  let text = initial;
  for (;;) {
    const line = await askLine(screen, { prompt: colours.cyan("  arguments › "), text });
    if (line.type !== "line") return null;
    text = line.text;
    const value = readJson(text);
    if (isObject(value)) return value;
    screen.print(`  ${colours.red("Not a JSON object. Correct it, or press Ctrl-C to go back.")}\n`);
  }
}

async function askQuestion(
  context: ChatContext,
  id: string,
  question: string,
  opts: JsonObject,
  version: number,
): Promise<PendingResult> {
  const { screen, colours, sessions } = context;
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
    if (line.type === "interrupted") return later(context);
    if (line.type === "ended") return "ended";
    const answer = line.text.trim();
    if (answer === "") continue;
    // The number of an option chooses that option.
    const chosen = /^\d{1,3}$/.test(answer) ? options[Number(answer) - 1] : undefined;
    return sessions.reply(id, chosen ?? answer, { version });
  }
}

async function askResult(
  context: ChatContext,
  id: string,
  call: PendingToolCall,
  version: number,
): Promise<PendingResult> {
  const { screen, colours, sessions } = context;
  const { name, arguments: args } = innerOf(call);
  screen.print(
    `\n${colours.yellow("?")} ${name} is a manual call: run it yourself and type its result.\n${shownArguments(context, args)}`,
  );
  const line = await askLine(screen, { prompt: colours.cyan("  result (JSON or text) › ") });
  if (line.type === "interrupted") return later(context);
  if (line.type === "ended") return "ended";
  return sessions.submitToolResults(id, [[call.id, readJson(line.text) ?? line.text]], { version });
}

function later({ screen, colours }: ChatContext): "later" {
  screen.print(`${colours.dim("  Postponed. Send any message to be asked again.")}\n`);
  return "later";
}

/** The call to decide about: for a tool that runs a child turn, the pending call inside it. */
function innerOf(call: PendingToolCall): { readonly name: string; readonly arguments: JsonObject } {
  const inner = call.opts["inner"] ?? null;
  if (call.path.length > 0 && isObject(inner)) {
    const args = inner["arguments"] ?? null;
    const name = typeof inner["name"] === "string" ? inner["name"] : call.name;
    return { name: safeText(`${name} (inside ${call.name})`), arguments: isObject(args) ? args : {} };
  }
  return { name: safeText(call.name), arguments: call.arguments ?? {} };
}

/**
 * All arguments as JSON. Invisible format characters (`Cf`, such as zero-width spaces and bidirectional overrides) are escaped, so that the user
 * sees exactly what is approved.
 */
function shownArguments({ screen, colours }: ChatContext, args: JsonObject): string {
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
