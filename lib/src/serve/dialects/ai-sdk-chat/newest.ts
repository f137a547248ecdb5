// The newest UI message of a session: found without its contents, and sent again in batches.
//
// Theory of operation
//   One UI message may span many messages of the session and many megabytes. `findNewest` reads the session backwards,
//   in pages, until it knows where the newest UI message starts. Of each message it keeps an outline: role, ids and
//   calls, without contents. `replayBatches` then reads the message forwards. It reads the next page when the client
//   has taken the batch before, so a client that does not read costs one batch, which counts in the budgets of unread
//   responses.
//
// Invariants
//   1. A batch has whole steps: a reply and the results of its calls. Its length is that of a page, or of one step that
//      is longer.
//   2. All batches together are the chunks of the whole message.

import type { AssistantMessage, Message, ToolCall } from "../../../core/model/internal.ts";
import type { SessionView } from "../../../durable/internal.ts";
import type { CallerSessions } from "../../http/internal.ts";
import type { UiChunk } from "./chunks.ts";
import type { NewestUiMessage, UiThread } from "./history.ts";

import { isFinalizeNudge } from "../../../core/model/internal.ts";
import { newestUiMessage, uiMessages } from "./history.ts";
import { isToolPart } from "./parts.ts";
import { replayChunks } from "./replay.ts";

/** How many messages are read at a time, and their length in characters. */
const page = { limit: 64, maxLength: 65_536 };

/** A session without its messages, and where its newest UI message is. */
export type Newest = {
  readonly view: SessionView;
  /** The UI message without its contents. The output of an open turn is not part of it. `null`: there is none. */
  readonly outline: NewestUiMessage | null;
  /** The index of the first message after it: the first one of the open turn, or the number of all messages. */
  readonly end: number;
};

/** Finds the newest UI message of a session, without the output of `turnId`, by default of the open turn. */
export async function findNewest(
  sessions: CallerSessions,
  sessionId: string,
  view: SessionView,
  turnId = runningTurn(view),
): Promise<Newest> {
  let outlines: readonly Message[] = [];
  for (let from = view.length; from > 0;) {
    const { items } = await sessions.messages(sessionId, { before: from, ...page });
    if (items.length === 0) break;
    from -= items.length;
    outlines = [...items.map(outlineOf), ...outlines];
    // A UI message before the newest one begins or ends with a message of the user.
    if (from > 0 && !items.some(startsUiMessage)) continue;
    const end = turnStartIndex(outlines, turnId);
    const { newest, count } = newestUiMessage(threadOf(view, outlines.slice(0, end), from));
    // With two UI messages before it, the newest one is read from its start.
    if (count > 2 || from === 0) return { view, outline: newest, end: from + end };
  }
  return { view, outline: newestUiMessage(threadOf(view, [], 0)).newest, end: 0 };
}

/** The chunks of the newest UI message, without its `start` and `finish`. */
export async function* replayBatches(
  sessions: CallerSessions,
  sessionId: string,
  { view, outline, end }: Newest,
): AsyncGenerator<readonly UiChunk[], undefined> {
  if (outline === null) return undefined;
  const { id } = outline.message;
  const calls = new Set(outline.message.parts.flatMap((part) => (isToolPart(part) ? [part.toolCallId] : [])));
  // Other calls that wait are in an earlier UI message.
  const pendingToolCalls = view.session.pendingToolCalls.filter((call) => calls.has(call.id));
  let steps: readonly Message[] = [];
  let before =
    outline.repeats === null ? [] : await messagesBetween(sessions, sessionId, outline.repeats, outline.index);
  let partsBefore = 0;
  for (let next = outline.index; next < end;) {
    const limit = Math.min(page.limit, end - next);
    const { items } = await sessions.messages(sessionId, { ...page, after: next - 1, limit });
    if (items.length === 0) return undefined;
    next += items.length;
    steps = [...steps, ...items];
    const isLast = next >= end;
    const count = isLast ? steps.length : lastStepIndex(steps);
    const shown = steps.slice(0, count);
    if (shown.length === 0) continue;
    const thread = threadOf(view, [...before, ...shown], next - steps.length - before.length);
    const replies = uiMessages({ ...thread, pendingToolCalls: isLast ? pendingToolCalls : [] }).filter(
      ({ role }) => role === "assistant",
    );
    const parts = (before.length === 0 ? replies : replies.slice(-1)).flatMap((message) => message.parts);
    steps = steps.slice(count);
    before = [];
    if (parts.length > 0) yield replayChunks({ id, parts }, partsBefore);
    partsBefore += parts.length;
  }
  return undefined;
}

/** The messages of a range without results of tools: a reply, and the questions of its tools with their answers. */
async function messagesBetween(
  sessions: CallerSessions,
  sessionId: string,
  from: number,
  end: number,
): Promise<readonly Message[]> {
  const messages: Message[] = [];
  for (let next = from; next < end;) {
    const limit = Math.min(page.limit, end - next);
    const { items } = await sessions.messages(sessionId, { ...page, after: next - 1, limit });
    if (items.length === 0) break;
    next += items.length;
    messages.push(...items.filter(({ role }) => role !== "tool"));
  }
  return messages;
}

/**
 * The index of the newest step, which may be incomplete; 0 if there is no other one. Input that was steered into a turn
 * belongs to the step after it.
 */
function lastStepIndex(messages: readonly Message[]): number {
  let start = 0;
  let isSteered = false;
  for (const [index, { role }] of messages.entries()) {
    if (role === "user") isSteered = true;
    if (role !== "assistant") continue;
    if (!isSteered) start = index;
    isSteered = false;
  }
  return start;
}

function startsUiMessage(message: Message): boolean {
  if (message.role === "user") return !isFinalizeNudge(message);
  return message.role === "assistant" && message.metadata["askUser"] === true;
}

/** A message without its contents, which may be large. */
function outlineOf(message: Message): Message {
  switch (message.role) {
    case "assistant":
      return outlineOfReply(message);
    case "user": {
      const { askUserAnswer = null, toolCallId = null } = message.metadata;
      const metadata = isFinalizeNudge(message) ? message.metadata : { askUserAnswer, toolCallId };
      return { ...message, content: "", metadata, origin: null };
    }
    case "tool":
    case "system":
    case "event":
      return { ...message, content: "", metadata: {}, origin: null };
  }
}

function withoutArguments({ id, name }: ToolCall): ToolCall {
  return { id, name, arguments: {}, rawArguments: null, provider: null, metadata: {} };
}

function outlineOfReply({ id, content, metadata, toolCalls, finishReason }: AssistantMessage): AssistantMessage {
  const { askUser = null, toolCallId = null } = metadata;
  return {
    role: "assistant",
    id,
    name: null,
    origin: null,
    content:
      typeof content === "string"
        ? ""
        : content.flatMap((part) =>
            part.type === "tool_call" && part.providerExecuted !== null
              ? [{ ...part, providerExecuted: withoutArguments(part.providerExecuted), metadata: {} }]
              : [],
          ),
    metadata: { askUser, toolCallId },
    toolCalls: toolCalls.map(withoutArguments),
    finishReason,
  };
}

/** The open turn unless it is parked: a parked turn has no further events until `recover`. */
export function runningTurn({ openTurn }: SessionView): string | null {
  return openTurn === null || openTurn.status === "parked" ? null : openTurn.turnId;
}

/** The stored state of a conversation, with these messages of it. */
export function threadOf({ session }: SessionView, messages: readonly Message[], from: number): UiThread {
  const { pendingToolCalls, pendingToolCallId, lastRun } = session;
  const askingCall = pendingToolCalls.find(({ id }) => id === pendingToolCallId);
  return {
    messages,
    from,
    pendingToolCalls,
    lastTurn: lastRun?.turnId ?? null,
    questionOpts: askingCall?.opts ?? lastRun?.metadata.askUserOpts ?? {},
  };
}

/** The index of the first message of a turn. `null`: no turn is running. */
export function turnStartIndex(messages: readonly Message[], turnId: string | null): number {
  const at = turnId === null ? -1 : messages.findIndex(({ id }) => id?.startsWith(`${turnId}/`) === true);
  return at < 0 ? messages.length : at;
}
