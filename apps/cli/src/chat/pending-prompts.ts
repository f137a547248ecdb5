// Human approval and answers in the chat: asks the user for what the session waits for, which is the approval of a
// call, the answer to a question, or the result of a manual call. An answer is a line that Enter submits. It is stored
// immediately; Ctrl-C postpones it and the session keeps waiting.
//
// A decision carries the digest of the call that was shown, so that it cannot count for another call (A1). Other
// answers carry the version of the session that was shown (compare-and-swap), so that an answer given elsewhere
// meanwhile is not overwritten.

import type { ChatContext } from "./follow.ts";
import type { Json, JsonObject, PendingToolCall, DecisionInput } from "everturn";
import type { SessionView, TurnHandle } from "everturn/runtime";

import { isEverturnError, MisuseError } from "everturn";

import { changeText, editableJson, pendingCallText } from "../commands/pending-call.ts";
import { preformatted, wrap } from "../terminal/flow.ts";
import { renderMarkdown } from "../terminal/markdown.ts";
import { askLine } from "../terminal/prompt.ts";
import { plain } from "../terminal/style.ts";
import { errorText } from "./follow.ts";

/** The turn that the answers started; `later`: postponed; `ended`: the user exits; `nothing`: nothing is pending. */
export type PendingResult = TurnHandle | "later" | "ended" | "nothing";

/** Asks for pending answers one by one, until a turn starts or none is left. */
export async function askPending(context: ChatContext, id: string): Promise<PendingResult> {
  for (;;) {
    const view = await context.sessions.get(id, { messages: 0 });
    if (view === null || view.openTurn !== null) return "nothing";
    const result = await askNext(context, id, view).catch((error: unknown) => {
      // The call or the session has changed since it was shown: show what is pending now, and ask again.
      const notice = changeText(error) ?? (isAnswered(error) ? "This was answered elsewhere in the meantime." : null);
      if (notice === null) throw error;
      context.screen.print(`${context.colours.yellow(wrap(notice, context.screen.width))}\n`);
      return null;
    });
    if (result === null) continue;
    if (typeof result === "string" || result.turnId !== null) return result;
  }
}

/** Returns whether the error of an answer means that the session does not wait for it any more. */
function isAnswered(error: unknown): boolean {
  if (error instanceof MisuseError) return error.reason === "invalid_status";
  return isEverturnError(error) && (error.reason === "conflict" || error.reason === "unknown_tool_call_id");
}

async function askNext(context: ChatContext, id: string, view: SessionView): Promise<PendingResult> {
  const { pendingToolCalls, pendingQuestion, status } = view.session;
  const open = pendingToolCalls.filter(({ decision }) => decision === null);
  const call = open.find(({ reason }) => reason !== "question");
  if (call !== undefined) {
    return call.reason === "manual" ? askResult(context, id, call, view.version) : askApproval(context, id, call);
  }
  if (status === "awaiting_user" && pendingQuestion !== null) {
    const asking = open.find(({ question }) => question === pendingQuestion);
    return askQuestion(context, id, pendingQuestion, asking?.opts ?? {}, view.version);
  }
  // Every call has an answer, but no turn was started with them.
  return status === "awaiting_tools" && open.length === 0 ? context.sessions.continue(id) : "nothing";
}

async function askApproval(context: ChatContext, id: string, call: PendingToolCall): Promise<PendingResult> {
  const { screen, colours, sessions } = context;
  const isLost = call.reason === "outcome_unknown";
  showCall(context, call, isLost ? "may have run already. Run it again?" : "needs your approval:");
  const mayEdit = call.path.length === 0;
  const choices = `${colours.bold("y")}es, ${colours.bold("n")}o [reason]${mayEdit ? `, ${colours.bold("e")}dit` : ""} `;
  for (;;) {
    const line = await askLine(screen, { prompt: `  ${choices}${colours.cyan("› ")}` });
    if (line.type === "interrupted") return later(context);
    if (line.type === "ended") return "ended";
    const decision = await decisionOf(context, call, parseApproval(line.text), mayEdit);
    if (decision === null) continue;
    try {
      return await sessions.decide(id, call.id, { ...decision, by: "terminal", digest: call.digest });
    } catch (error) {
      // The tool does not accept the arguments, or is gone. Nothing was stored: the call can still be edited or denied.
      if (!isRefusedApproval(error)) throw error;
      screen.print(`  ${colours.red(wrap(errorText(error), screen.width - 2).replaceAll("\n", "\n  "))}\n`);
    }
  }
}

/** The decision that a typed answer stands for; `null`: it decides nothing. */
async function decisionOf(
  context: ChatContext,
  { shown }: PendingToolCall,
  answer: ApprovalAnswer,
  mayEdit: boolean,
): Promise<DecisionInput | null> {
  const { screen, colours } = context;
  switch (answer.type) {
    case "approve":
      return { type: "approve" };
    case "deny":
      return answer.reason === "" ? { type: "deny" } : { type: "deny", reason: answer.reason };
    case "edit": {
      if (mayEdit) {
        const edited = await askJson(context, editableJson(shown.arguments ?? {}));
        return edited === null ? null : { type: "approve", arguments: edited };
      }
      screen.print(`  ${colours.red("The arguments of a call inside another call cannot be edited.")}\n`);
      return null;
    }
    case "unclear": {
      const words = mayEdit ? "yes, no or edit" : "yes or no";
      screen.print(`  ${colours.red(`Type ${words} and press Enter; Ctrl-C postpones the decision.`)}\n`);
      return null;
    }
  }
}

function isRefusedApproval(error: unknown): boolean {
  if (error instanceof MisuseError) return error.reason === "invalid_argument";
  return isEverturnError(error) && error.reason === "unknown_tool";
}

type ApprovalAnswer =
  | { readonly type: "approve" | "edit" | "unclear" }
  | { readonly type: "deny"; readonly reason: string };

/**
 * Parses the typed answer to an approval: `y`, `yes`, `n`, `no`, `e`, `edit` in any case, and `no` may be followed by a
 * reason for the model. Only a whole line decides: a single key would approve a call while the user is still typing a
 * message, and would leave the rest of the word as input for the next prompt. An empty line decides nothing.
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
  showCall(context, call, "is a manual call: run it yourself and type its result.");
  const line = await askLine(screen, { prompt: colours.cyan("  result (JSON or text) › ") });
  if (line.type === "interrupted") return later(context);
  if (line.type === "ended") return "ended";
  return sessions.submitToolResults(id, [[call.id, readJson(line.text) ?? line.text]], { version });
}

function later({ screen, colours }: ChatContext): "later" {
  screen.print(`${colours.dim("  Postponed. Send any message to be asked again.")}\n`);
  return "later";
}

/**
 * Prints a call completely, before the prompt. If its first rows are not on the screen any more, the last row says so
 * and names the call again.
 */
function showCall({ screen, colours }: ChatContext, call: PendingToolCall, what: string): void {
  const { title, details } = pendingCallText(call);
  const margin = [{ text: "    ", style: plain }];
  const rows = preformatted(details.join("\n"), screen.width, { first: margin, rest: margin });
  const first = wrap(`${title} ${what}`, screen.width - 2).replaceAll("\n", "\n  ");
  const count = rows.split("\n").length;
  const isScrolled = count + 2 > screen.terminal.rows();
  const hint = `${title}: ${count} lines. Scroll up to read all of them.`;
  const last = isScrolled ? `  ${colours.yellow(wrap(hint, screen.width - 2).replaceAll("\n", "\n  "))}\n` : "";
  screen.print(`\n${colours.yellow("?")} ${first}\n${rows}\n${last}`);
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
