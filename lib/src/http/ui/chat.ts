// A chat of the AI SDK over a session: its id is the session's. What a client posts is said to the session by the verbs of the runtime, under keys that
// follow from what is said, so a request that is sent again is accepted once.
//
// Rules:
//   1. The conversation is the session's. Nothing of what a client says about the past is believed or kept.
//   2. Somebody's consent is for one wait: for the call as it waited when they were asked. It is checked against the session as it is read and given
//      to that very version of it; a call that waits again, be it with the same id, is asked about again.
//   3. Answers are looked at together before any is given: one that nobody waits for refuses all of them.

import type { SessionStatus } from "../../model/internal.ts";
import type { DurableOptions, Runtime, SessionView, StartOptions, TurnHandle } from "../../runtime/internal.ts";
import type { Said } from "./answers.ts";
import type { UiChunk } from "./chunks.ts";
import type { UiMessage } from "./parts.ts";
import type { UiLimits, UiPost } from "./request.ts";

import { RuntimeError, SessionError, sessionError } from "../../model/internal.ts";
import { accepted, give, isOpenNow, nobodyWaits, sayingOf, waitOf } from "./answers.ts";
import { uiMessages } from "./history.ts";
import { failureText, isToolPart } from "./parts.ts";
import { replayChunks } from "./replay.ts";
import { defaultUiLimits, readUiPost } from "./request.ts";
import { knownChunks, turnChunks } from "./stream.ts";
import { UiTranslator } from "./translator.ts";

export type UiChatOptions = {
  /** How turns are run that begin with this request. */
  readonly options?: Omit<DurableOptions, "key" | "version" | "metadata">;
  /** What a session that begins with it is given. */
  readonly start?: Pick<StartOptions, "context" | "metadata">;
  /** Who consents, where somebody does. */
  readonly by?: string | null;
  readonly limits?: Partial<UiLimits>;
};

/** What is told to a client. */
export type UiStream = {
  readonly chatId: string;
  /** The turn that is told; without a turn id nothing was begun: somebody still has to say something. */
  readonly turn: TurnHandle;
  readonly chunks: AsyncIterable<UiChunk>;
};

/** A conversation, for a client that begins with it. */
export type UiChat = {
  readonly id: string;
  readonly messages: readonly UiMessage[];
  readonly status: SessionStatus;
  readonly version: number;
  /** The turn that runs: `resumeUiChat` tells it. */
  readonly turnId: string | null;
  /** Why the session is in `error`, if it is. */
  readonly error: string | null;
};

/** Takes what a client posted, and tells what comes of it. */
export async function postUiChat(sessions: Runtime, body: unknown, options: UiChatOptions = {}): Promise<UiStream> {
  const post = readUiPost(body, { ...defaultUiLimits, ...options.limits });
  switch (post.type) {
    case "message":
      return say(sessions, post, options);
    case "answers":
      return answer(sessions, post, options);
  }
}

/** The turn that runs, from the beginning of the message it adds to; `null`: none does. */
export async function resumeUiChat(sessions: Runtime, chatId: string): Promise<UiStream | null> {
  const known = await newest(sessions, chatId);
  const turnId = known === null ? null : runningTurn(known.view);
  if (known === null || turnId === null) return null;
  const { last } = known;
  const turn = sessions.attach(chatId, turnId);
  // What a question ends is ended: the answer begins a message.
  const goesOn = last?.role === "assistant" && last.parts.at(-1)?.type !== "data-question" ? last : null;
  if (goesOn === null) return { chatId, turn, chunks: turnChunks(turn, [], new UiTranslator()) };
  const calls = goesOn.parts.filter(isToolPart);
  const translator = new UiTranslator({
    messageId: goesOn.id,
    known: calls.map(({ toolCallId, state }) => [toolCallId, state === "approval-responded" ? "open" : "settled"]),
  });
  const first = [...translator.start(turnId), ...replayChunks(goesOn)];
  return { chatId, turn, chunks: turnChunks(turn, first, translator) };
}

/** The conversation as messages of the AI SDK; `null`: there is none of that name. What a running turn has said is not in it: that is resumed. */
export async function loadUiChat(sessions: Runtime, chatId: string): Promise<UiChat | null> {
  const view = await sessions.get(chatId);
  if (view === null) return null;
  const { session, version } = view;
  const failure = sessionError(session);
  return {
    id: chatId,
    messages: messagesOf(view),
    status: session.status,
    version,
    turnId: runningTurn(view),
    error: failure === null ? null : failureText(failure),
  };
}

/** Says something: to a session that is there, or with it a new one begins. */
async function say(
  sessions: Runtime,
  { chatId, messageId, message }: Extract<UiPost, { readonly type: "message" }>,
  { options = {}, start = {} }: UiChatOptions,
): Promise<UiStream> {
  const there = await sessions.get(chatId, { messages: 0 });
  const [first] = there === null ? [] : (await sessions.messages(chatId, { limit: 1 })).items;
  const begins = there === null || (first?.role === "user" && first.id === messageId);
  const turn = begins
    ? await sessions.start([message], { ...options, ...start, id: chatId, key: `ui-start:${messageId}` })
    : await sessions.continue(chatId, message, { ...options, key: `ui-message:${messageId}` });
  return turn.turnId === null ? nothingBegun(sessions, chatId, turn) : toldFrom(chatId, turn, [], new UiTranslator());
}

/** Says something to calls that wait. */
async function answer(
  sessions: Runtime,
  { chatId, messageId, answers, known }: Extract<UiPost, { readonly type: "answers" }>,
  { options = {}, by = null }: UiChatOptions,
): Promise<UiStream> {
  const before = await sessions.get(chatId, { messages: 0 });
  if (before === null) throw new RuntimeError("not_found", { message: `there is no chat ${JSON.stringify(chatId)}` });
  const given: Said[] = [];
  let turn: TurnHandle | null = null;
  for (const one of answers) {
    const said = sayingOf(one, by);
    if (waitOf(before, one) !== null) {
      given.push(said);
      continue;
    }
    // A call of that id that waits for something else is not to be taken for the one that was answered.
    const repeated = isOpenNow(before, one) ? null : await accepted(sessions, chatId, said, options);
    if (repeated !== null) turn = repeated.turnId === null ? (turn ?? repeated) : repeated;
    // Results of tools that were run here are in every message.
    else if (one.type === "decision") throw nobodyWaits(one.approvalId);
  }
  for (const said of given) turn = await give(sessions, chatId, said, options);
  if (turn === null) {
    throw new SessionError("no_pending_tool_call", {
      message:
        "the newest message is the assistant's, and nothing in it answers a call that waits; say something, or load the chat again",
    });
  }
  if (turn.turnId === null) return { chatId, turn, chunks: knownChunks([{ type: "start" }, stillWaiting]) };
  const settled = new Set(answers.flatMap((one) => (one.type === "decision" && one.approved ? [] : [one.toolCallId])));
  const here = new Set(known);
  const decided = new Set(answers.map(({ toolCallId }) => toolCallId));
  const translator = new UiTranslator({
    messageId,
    known: [...here].map((id) => [id, decided.has(id) && !settled.has(id) ? "open" : "settled"]),
  });
  // Nothing happens in a turn to a call that was refused, here or by somebody else: that it was is all there is to tell.
  const refused = new Set([
    ...answers.flatMap((one) => (one.type === "decision" && !one.approved ? [one.toolCallId] : [])),
    ...before.session.pendingToolCalls.flatMap(({ id, decision }) => (decision?.type === "deny" ? [id] : [])),
  ]);
  const denied = [...refused].flatMap((toolCallId): readonly UiChunk[] => {
    return here.has(toolCallId) ? [{ type: "tool-output-denied", toolCallId }] : [];
  });
  return toldFrom(chatId, turn, [...translator.start(turn.turnId), ...denied], translator);
}

function toldFrom(chatId: string, turn: TurnHandle, first: readonly UiChunk[], translator: UiTranslator): UiStream {
  return { chatId, turn, chunks: turnChunks(turn, first, translator) };
}

const stillWaiting: UiChunk = { type: "finish", finishReason: "tool-calls" };

/** What was said was taken, and somebody has to say more: perhaps there is another question. */
async function nothingBegun(sessions: Runtime, chatId: string, turn: TurnHandle): Promise<UiStream> {
  const last = (await newest(sessions, chatId))?.last ?? null;
  const asks = last?.role === "assistant" ? last : null;
  const begun: UiChunk = asks === null ? { type: "start" } : { type: "start", messageId: asks.id };
  const question = asks === null ? [] : replayChunks(asks);
  return { chatId, turn, chunks: knownChunks([begun, ...question, stillWaiting]) };
}

/** The session, and its newest message as a chat shows it, without what a running turn has said. */
async function newest(
  sessions: Runtime,
  chatId: string,
): Promise<{ readonly view: SessionView; readonly last: UiMessage | null } | null> {
  for (let messages = 64; ; messages *= 4) {
    const view = await sessions.get(chatId, { messages });
    if (view === null) return null;
    const found = messagesOf(view);
    // With two before it, it is there from its beginning.
    if (found.length > 2 || messages >= view.length) return { view, last: found.at(-1) ?? null };
  }
}

/** The turn that is open and not parked: one that is says nothing more until somebody recovers it. */
function runningTurn({ openTurn }: SessionView): string | null {
  return openTurn === null || openTurn.status === "parked" ? null : openTurn.turnId;
}

/** The messages of a session, without what a running turn has said. */
function messagesOf(view: SessionView): readonly UiMessage[] {
  const { session, length } = view;
  const turnId = runningTurn(view);
  const all = session.thread.messages;
  const { pendingToolCalls, pendingToolCallId, lastRun } = session;
  const asking = pendingToolCalls.find(({ id }) => id === pendingToolCallId);
  return uiMessages({
    messages: turnId === null ? all : all.slice(0, beginningOf(all, turnId)),
    from: length - all.length,
    pendingToolCalls,
    lastTurn: lastRun?.turnId ?? null,
    questionOpts: asking?.opts ?? lastRun?.metadata.askUserOpts ?? {},
  });
}

/** Where the messages of a turn begin. */
function beginningOf(messages: SessionView["session"]["thread"]["messages"], turnId: string): number {
  const at = messages.findIndex(({ id }) => id?.startsWith(`${turnId}/`) === true);
  return at < 0 ? messages.length : at;
}
