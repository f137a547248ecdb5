// The AI SDK's chat (`useChat`) over a session: post, resume, stop and load. The chat id is the id of the first
// session; a message that is regenerated or edited continues the chat in a fork of it (branches.ts).
//
// A post is passed to a verb of the runtime under an idempotency key that is derived from the message or the wait, so a
// request that is sent again is accepted once. Reading a turn starts at the beginning of its message, because a client
// that reconnects discards the part of the message that it had, or after the cursor of the last chunks that it has.
//
// Invariants
//   1. History comes from the session. The client posts the whole chat; only its newest message, or its answers, are
//      read.
//   2. An approval is for one wait: for the call as it was pending when the user was asked. It is checked against the
//      session and submitted for that version (answers.ts). A call that is pending again, also with the same id, needs
//      a new approval.
//   3. A message continues a chat whose last turn failed: the session is recovered first (contract/recover-failed.ts).
//   4. All answers of a post are checked before any is submitted: one without a pending call, or one that the caller
//      may not give, rejects all of them.

import type { Cancelled, Message, SessionStatus } from "../../../core/model/internal.ts";
import type { DurableOptions, SessionView, StartOptions, TurnHandle } from "../../../durable/internal.ts";
import type { CallerSessions, ContentPolicy } from "../../http/internal.ts";
import type { ChunkBatches } from "../shared/turn-chunks.ts";
import type { KeyedAnswer } from "./answers.ts";
import type { Branch } from "./branches.ts";
import type { UiChunk } from "./chunks.ts";
import type { Newest } from "./newest.ts";
import type { UiMessage, UiToolPart } from "./parts.ts";
import type { UiLimits, UiPost } from "./request.ts";
import type { UiSdk } from "./translator.ts";

import {
  blankUserIssues,
  messageText,
  SessionError,
  sessionError,
  ValidationError,
} from "../../../core/model/internal.ts";
import { parseCursor } from "../../../durable/internal.ts";
import { recoverFailed } from "../../contract/internal.ts";
import { chunkStream, turnChunks } from "../shared/turn-chunks.ts";
import {
  acceptedBefore,
  submitAnswer,
  isCallOpen,
  noPendingApproval,
  keyedAnswerOf,
  pendingCallOf,
  withEdit,
} from "./answers.ts";
import { currentBranch, forkBefore, noChat } from "./branches.ts";
import { deniedChunk } from "./chunks.ts";
import { uiMessages } from "./history.ts";
import { findNewest, replayBatches, runningTurn, threadOf, turnStartIndex } from "./newest.ts";
import { approvedArguments, failureText, isToolPart, resultOfMessage, userParts } from "./parts.ts";
import { requestChunks } from "./replay.ts";
import { defaultUiLimits, readUiPost } from "./request.ts";
import { UiTranslator } from "./translator.ts";

export type UiChatOptions = {
  /** The options of the turn that the request starts. */
  readonly options?: Omit<DurableOptions, "key" | "version" | "metadata">;
  /** The context, engine and metadata of a session that the request starts. */
  readonly start?: Pick<StartOptions, "context" | "engine" | "metadata">;
  /** The name recorded with decisions. */
  readonly by?: string | null;
  /** The major version of the client's SDK. Default: 7. */
  readonly sdk?: UiSdk;
  readonly limits?: Partial<UiLimits>;
  /** The quota of the tenant for what its forks copy, in characters. Default: no limit. */
  readonly copiedLengthPerHour?: number;
  /** Which files and URLs the post may contain. */
  readonly policy?: ContentPolicy;
};

/** The response to a post or a resume. */
export type UiStream = {
  readonly chatId: string;
  /** The turn that is streamed. Its `turnId` is `null` if no turn was started because calls are still pending. */
  readonly turn: TurnHandle;
  readonly chunks: ChunkBatches<UiChunk>;
  /**
   * The cursor after the newest batch of chunks: a client that has them reads on after it. `null`: there is none yet.
   */
  readonly cursor: () => string | null;
};

/** Where a client that has lost its connection reads on. */
export type UiPosition = {
  /** The turn that it was reading, which may have ended meanwhile. */
  readonly turnId: string;
  /** The cursor of the last batch of chunks that it has; `null`: it has none. */
  readonly after: string | null;
};

/** A conversation, to initialise a client. */
export type UiChat = {
  readonly id: string;
  /** The session that holds the current branch of the chat. */
  readonly sessionId: string;
  readonly messages: readonly UiMessage[];
  /** The cursor `before` of the messages before these; `null`: there are none. */
  readonly previous: string | null;
  readonly status: SessionStatus;
  readonly version: number;
  /** The open turn, which `resumeUiChat` streams. */
  readonly turnId: string | null;
  /** The failure of a session in status `error`. */
  readonly error: string | null;
};

const emptyChat = { messages: [], previous: null, status: "idle", version: 0, turnId: null, error: null } as const;

/** Passes a post to the session and streams the turn. Throws for an invalid post before anything is started. */
export async function postUiChat(
  sessions: CallerSessions,
  body: unknown,
  options: UiChatOptions = {},
): Promise<UiStream> {
  const post = readUiPost(body, { ...defaultUiLimits, ...options.limits }, options.policy);
  const branch = await currentBranch(sessions, post.chatId);
  switch (post.type) {
    case "message":
      return postMessage(sessions, branch, post, options);
    case "answers":
      if (branch === null) throw noChat(post.chatId);
      return postAnswers(sessions, branch, post, options);
  }
}

/**
 * Streams the open turn from the start of the message that it extends; `null` if no turn is open. With a position: the
 * chunks of that turn after its cursor.
 */
export async function resumeUiChat(
  sessions: CallerSessions,
  chatId: string,
  {
    sdk = 7,
    position = null,
    showsInput = false,
  }: Pick<UiChatOptions, "sdk"> & {
    readonly position?: UiPosition | null;
    /** The client does not have the message that started the turn. */
    readonly showsInput?: boolean;
  } = {},
): Promise<UiStream | null> {
  const branch = await currentBranch(sessions, chatId);
  const turnId = branch === null ? null : (position?.turnId ?? runningTurn(branch.view));
  if (branch === null || turnId === null) return null;
  const { sessionId, view } = branch;
  const newest = await findNewest(sessions, sessionId, view, turnId);
  const last = newest.outline?.message ?? null;
  // A question ends its message: the answer starts a new one.
  const continued = last?.role === "assistant" && last.parts.at(-1)?.type !== "data-question" ? last : null;
  const calls = continued?.parts.filter(isToolPart) ?? [];
  const waiting = new Set(view.session.pendingToolCalls.map(({ id }) => id));
  // Calls that the turn has answered: they wait no more, and their results are in its events.
  const answered = calls.filter(
    ({ toolCallId, state, providerExecuted }) =>
      state === "input-available" && providerExecuted !== true && !waiting.has(toolCallId),
  );
  const decisions = answered.length === 0 ? [] : await decisionsIn(sessions, newest, sessionId, answered);
  const open = new Set(
    [...calls.filter(({ state }) => state === "approval-responded"), ...answered].map(({ toolCallId }) => toolCallId),
  );
  for (const chunk of decisions) if (chunk.type === "tool-output-error") open.delete(chunk.toolCallId);
  const translator = new UiTranslator({
    sdk,
    ...(continued === null ? {} : { messageId: continued.id }),
    existingCalls: calls.map(({ toolCallId }) => [toolCallId, open.has(toolCallId) ? "open" : "settled"]),
  });
  if (position !== null && position.after !== null)
    return readOn(sessions, chatId, sessionId, { turnId, after: position.after }, translator);
  const turn = sessions.attach(sessionId, turnId);
  if (continued === null) {
    const input = showsInput ? await inputOf(sessions, newest, sessionId) : [];
    return streamTurn(chatId, turn, input.length === 0 ? [] : [...translator.start(turnId), ...input], translator);
  }
  let isReplayed = false;
  async function* first() {
    let batch = translator.start(turnId ?? "");
    for await (const next of replayBatches(sessions, sessionId, newest)) {
      yield batch;
      batch = next;
    }
    isReplayed = true;
    yield [...batch, ...decisions];
  }
  const cursor = () => translator.cursor ?? (isReplayed ? startCursor : null);
  return { chatId, turn, chunks: turnChunks(turn, first(), translator), cursor };
}

/** How many messages of a turn are searched for decisions, and their length in characters. They are its first ones. */
const searchedDecisions = { limit: 64, maxLength: 65_536 };

/**
 * What persons have decided about calls that a turn has answered, and what has no event: denials and changed arguments.
 */
async function decisionsIn(
  sessions: CallerSessions,
  { end }: Newest,
  sessionId: string,
  answered: readonly UiToolPart[],
): Promise<readonly UiChunk[]> {
  const { items } = await sessions.messages(sessionId, { after: end - 1, ...searchedDecisions });
  return items.flatMap((message): readonly UiChunk[] => {
    if (message.role !== "tool") return [];
    const { toolCallId } = message;
    const part = answered.find((call) => call.toolCallId === toolCallId);
    if (part === undefined) return [];
    const result = resultOfMessage(message);
    if (result?.type === "denied") return [deniedChunk(toolCallId, result.reason)];
    const input = approvedArguments(message);
    const toolName = part.type.slice("tool-".length);
    return input === null ? [] : [{ type: "tool-input-available", toolCallId, toolName, input }];
  });
}

/** The message that started a turn, for a client that has not sent it: the newest message before the turn. */
async function inputOf(
  sessions: CallerSessions,
  { outline, end }: Newest,
  sessionId: string,
): Promise<readonly UiChunk[]> {
  if (outline === null || outline.message.role !== "user") return [];
  const { message, index } = outline;
  const { items } = await sessions.messages(sessionId, { after: index - 1, limit: Math.max(1, end - index) });
  const [input] = items;
  // The answer to a question is the result of its call.
  const content = input?.role === "user" ? input.content : input?.role === "tool" ? messageText(input) : "";
  return [{ type: "data-steering-message", id: message.id, data: { parts: [...userParts(content)] } }];
}

/** The cursor before the first event of a session. */
export const startCursor = "0";

/**
 * The chunks of a turn after a cursor. The translator reads the stored events before the cursor first, without sending
 * their chunks: block ids and the states of calls follow from them.
 */
function readOn(
  sessions: CallerSessions,
  chatId: string,
  sessionId: string,
  { turnId, after }: { readonly turnId: string; readonly after: string },
  translator: UiTranslator,
): UiStream {
  const { sequence } = parseCursor(after);
  const attached = sessions.attach(sessionId, turnId);
  const turn: TurnHandle = {
    sessionId,
    turnId,
    isOpen: attached.isOpen,
    events: sessions.events(sessionId, { turnId, after }),
    get result() {
      return attached.result;
    },
  };
  async function* first(): AsyncGenerator<readonly UiChunk[], undefined> {
    translator.start(turnId);
    for await (const event of sessions.events(sessionId, { turnId, follow: false })) {
      if ((event.sequence ?? Infinity) > sequence) break;
      translator.add(event);
    }
    translator.continueAfter(after);
    yield [];
    return undefined;
  }
  return { chatId, turn, chunks: turnChunks(turn, first(), translator), cursor: () => translator.cursor ?? after };
}

/**
 * Cancels the open turn, or the given one; the client's own `stop()` only closes its connection, which does not affect
 * the turn. `nothing_open` if no turn is running.
 */
export async function stopUiChat(
  sessions: CallerSessions,
  chatId: string,
  turnId: string | null = null,
): Promise<Cancelled> {
  const branch = await currentBranch(sessions, chatId);
  if (branch === null) throw noChat(chatId);
  return sessions.cancel(branch.sessionId, turnId === null ? {} : { turnId });
}

/** How much of a conversation is loaded. */
export type UiPage = {
  /** The messages before this cursor, which is `previous` of a later page. Default: the newest. */
  readonly before?: string;
  /** The largest number of messages of the session, and their length in characters. A page has at least one message. */
  readonly limit?: number;
  readonly maxLength?: number;
};

/**
 * A page of the conversation as messages of the AI SDK, the newest by default. A chat without a session has no
 * messages: its first message starts the session. The page excludes the output of an open turn, which `resumeUiChat`
 * streams. It begins with a message of the user, unless one reply is larger than the page.
 */
export async function loadUiChat(
  sessions: CallerSessions,
  chatId: string,
  { before, limit = 1000, maxLength = 1_048_576 }: UiPage = {},
): Promise<UiChat> {
  const branch = await currentBranch(sessions, chatId);
  if (branch === null) return { ...emptyChat, id: chatId, sessionId: chatId };
  const { items } = await sessions.messages(branch.sessionId, {
    before: before ?? branch.view.length,
    limit,
    maxLength,
  });
  const end = before === undefined ? branch.view.length : Math.min(Number(before), branch.view.length);
  const loadedFrom = end - items.length;
  const firstUser =
    loadedFrom === 0
      ? 0
      : Math.max(
          0,
          items.findIndex(({ role }) => role === "user"),
        );
  const first = loadedFrom + firstUser;
  const { session: bare, version } = branch.view;
  // Calls are pending, and a question is open, at the end of the conversation only.
  const waits = before === undefined ? bare : { ...bare, pendingToolCalls: [], pendingToolCallId: null };
  const session = { ...waits, thread: { ...bare.thread, messages: items.slice(firstUser) } };
  const view = { ...branch.view, session, length: end };
  const failure = sessionError(session);
  return {
    id: chatId,
    sessionId: branch.sessionId,
    messages: messagesOf(view),
    previous: first === 0 ? null : `${first}`,
    status: session.status,
    version,
    turnId: runningTurn(view),
    error: failure === null ? null : failureText(failure),
  };
}

/**
 * Passes a user message to the session, or starts a session with it. The message that started the session is sent to
 * `start` again, which finds it by its key.
 */
async function postMessage(
  sessions: CallerSessions,
  branch: Branch | null,
  { chatId, messageId, message, mode }: Extract<UiPost, { readonly type: "message" }>,
  posted: UiChatOptions,
): Promise<UiStream> {
  // Before the fork: the newest fork is the chat, so one without the edited message would hide the messages after it.
  const issues = mode === "edit" ? blankUserIssues([message]) : [];
  if (issues.length > 0) throw new ValidationError("invalid_message", { issues });
  // A message that is not stored was never accepted: regenerating it is a retry of the post.
  const fork =
    branch === null || mode === "new"
      ? null
      : await forkBefore(sessions, branch, messageId, posted.copiedLengthPerHour);
  if (fork !== null)
    return answerAgain(sessions, chatId, fork.sessionId, mode === "edit" ? message : fork.message, posted);
  const { options = {}, start = {}, sdk = 7 } = posted;
  const sessionId = branch?.sessionId ?? chatId;
  const [first] = branch?.number === 0 ? (await sessions.messages(sessionId, { limit: 1 })).items : [];
  const startsSession = branch === null || (first?.role === "user" && first.id === messageId);
  const turn = startsSession
    ? await sessions.start([message], { ...options, ...start, id: chatId, key: `ui-start:${messageId}` })
    : await recoverFailed(sessions, sessionId, () =>
        sessions.continue(sessionId, message, { ...options, key: `ui-message:${messageId}` }),
      );
  return turn.turnId === null
    ? noTurnStarted(sessions, chatId, turn)
    : streamTurn(chatId, turn, [], new UiTranslator({ sdk }));
}

/**
 * Continues the chat in a fork that ends before a user message, with that message as it is stored or as the user edited
 * it.
 */
async function answerAgain(
  sessions: CallerSessions,
  chatId: string,
  forkId: string,
  message: Message,
  { options = {}, sdk = 7 }: UiChatOptions,
): Promise<UiStream> {
  const turn = await sessions.continue(forkId, message, options);
  return streamTurn(chatId, turn, [], new UiTranslator({ sdk }));
}

/** Submits answers to pending calls. */
async function postAnswers(
  sessions: CallerSessions,
  { sessionId, view }: Branch,
  { chatId, messageId, answers, callIds }: Extract<UiPost, { readonly type: "answers" }>,
  { options = {}, by = null, sdk = 7 }: UiChatOptions,
): Promise<UiStream> {
  const submissions: KeyedAnswer[] = [];
  let turn: TurnHandle | null = null;
  for (const uiAnswer of answers) {
    const keyedAnswer = keyedAnswerOf(uiAnswer, by);
    const call = pendingCallOf(view, uiAnswer);
    if (call !== null) {
      submissions.push(withEdit(keyedAnswer, call));
      continue;
    }
    // A pending call of the same id with another wait is not the call that was answered.
    const acceptedTurn = isCallOpen(view, uiAnswer)
      ? null
      : await acceptedBefore(sessions, sessionId, keyedAnswer, options);
    if (acceptedTurn !== null) turn = acceptedTurn.turnId === null ? (turn ?? acceptedTurn) : acceptedTurn;
    // Results of tools that the server ran are part of every posted message and are skipped.
    else if (uiAnswer.type === "decision") throw noPendingApproval(view, uiAnswer);
  }
  const answeredIds = submissions.map(({ answer: { toolCallId } }) => toolCallId);
  await sessions.checkAnswers?.(sessionId, answeredIds);
  for (const keyedAnswer of submissions) turn = await submitAnswer(sessions, sessionId, keyedAnswer, options);
  if (turn === null) {
    throw new SessionError("no_pending_tool_call", {
      message:
        "the newest message is of the assistant and answers no pending call; post a user message, or load the chat again",
    });
  }
  if (turn.turnId === null)
    return { chatId, turn, chunks: chunkStream([{ type: "start" }, waitingFinish]), cursor: noCursor };
  const settledCalls = new Set(
    answers.flatMap((uiAnswer) => (uiAnswer.type === "decision" && uiAnswer.approved ? [] : [uiAnswer.toolCallId])),
  );
  const clientCalls = new Set(callIds);
  const answeredCalls = new Set(answers.map(({ toolCallId }) => toolCallId));
  const translator = new UiTranslator({
    sdk,
    messageId,
    existingCalls: [...clientCalls].map((id) => [
      id,
      answeredCalls.has(id) && !settledCalls.has(id) ? "open" : "settled",
    ]),
  });
  // A denied call causes no event in the turn, whichever client denied it, so its state is sent here.
  const deniedCalls = new Set([
    ...answers.flatMap((uiAnswer) => (uiAnswer.type === "decision" && !uiAnswer.approved ? [uiAnswer.toolCallId] : [])),
    ...view.session.pendingToolCalls.flatMap(({ id, decision }) => (decision?.type === "deny" ? [id] : [])),
  ]);
  const deniedChunks = [...deniedCalls].flatMap((toolCallId): readonly UiChunk[] => {
    return clientCalls.has(toolCallId) ? [{ type: "tool-output-denied", toolCallId }] : [];
  });
  return streamTurn(chatId, turn, [...translator.start(turn.turnId), ...deniedChunks], translator);
}

function streamTurn(chatId: string, turn: TurnHandle, first: readonly UiChunk[], translator: UiTranslator): UiStream {
  const cursor = () => translator.cursor ?? startCursor;
  return { chatId, turn, chunks: turnChunks(turn, chunkStream(first), translator), cursor };
}

const noCursor = () => null;

const waitingFinish: UiChunk = { type: "finish", finishReason: "tool-calls" };

/**
 * The stream for a message that was accepted without starting a turn, because calls are still pending: it repeats the
 * open question and the requests for approvals, if there are any.
 */
async function noTurnStarted(sessions: CallerSessions, chatId: string, turn: TurnHandle): Promise<UiStream> {
  const { sessionId } = turn;
  const view = await sessions.get(sessionId, { messages: 0 });
  const newest = view === null ? null : await findNewest(sessions, sessionId, view);
  const last = newest?.outline?.message ?? null;
  const openMessage = last?.role === "assistant" ? last : null;
  const startChunk: UiChunk = openMessage === null ? { type: "start" } : { type: "start", messageId: openMessage.id };
  async function* chunks() {
    yield [startChunk];
    if (newest !== null && openMessage !== null) yield* replayBatches(sessions, sessionId, newest);
    yield [waitingFinish, ...requestChunks(openMessage?.parts ?? [])];
  }
  return { chatId, turn, chunks: chunks(), cursor: noCursor };
}

/** The UI messages of a session, without the output of an open turn. */
function messagesOf(view: SessionView): readonly UiMessage[] {
  const { messages } = view.session.thread;
  const end = turnStartIndex(messages, runningTurn(view));
  return uiMessages(threadOf(view, messages.slice(0, end), view.length - messages.length));
}
