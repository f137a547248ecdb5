// A transport for `useChat` of the AI SDK, versions 6 and 7, over the routes of the dialect `aiSdkChat()`.
//
// Theory of operation
//   A post has the newest message only: the server reads history from the session. The response is a stream of chunks,
//   whose frames have cursors. If the connection is cut (a deploy, a crash, a network), the transport reconnects with
//   the cursor and goes on in the same stream: the chat stays in its status and shows every chunk once. A turn whose
//   process has ended is continued by the server.
//
// How one connection ends, and what follows
//   `finish`, `[DONE]`, an error of the turn    the stream ends
//   an error of the process (it shuts down)     reconnect after the cursor
//   end of the response without them, silence   reconnect after the cursor
//   no response to a post, or no whole batch    the post is sent again, unless it regenerates or edits a message: those
//                                               fork the session, and a second request would fork it again
//
// Turns of others
//   The chat asks for a stream after it was created and, by `onFinish` of the page, after each stream. The request is
//   answered when there is a turn which this transport does not stream itself: one that another client or the decision
//   of another person starts. The chat keeps its status until then. One connection waits per chat. It is closed while
//   the chat has a stream of its own, and opened again after the last event of that stream, so no turn is missed.
//
// Invariants
//   1. Chunks are passed on when the frame with their cursor was received: a part of a batch is read again.
//   2. `stop()` cancels the turn. A request that was sent is not aborted before its response: the server may have
//      accepted the turn, and the turn would go on. The next request of the chat waits until the turn is cancelled.
//   3. A stream that is stopped and resumed in the same task (a component that is mounted again) is closed, and its
//      turn goes on.
//   4. No turn is streamed twice at the same time, and waiting never fails for a server that cannot be reached.

import type { FrameStream, NextFrame } from "./frames.ts";
import type { ApiRequest, ReadAnswer, Sender } from "./sender.ts";
import type { ClientOptions } from "./types.ts";

import { nextTask } from "../../core/clock/clock.ts";
import { Backoff } from "./backoff.ts";
import { ClientError } from "./errors.ts";
import { readFrames } from "./event-reader.ts";
import { pathOf, query, senderOf } from "./requests.ts";
import { readNothing, send, unlessAborted } from "./sender.ts";
import { StreamFilter } from "./stream-filter.ts";

/** Options of {@link chatTransport}: those of `createClient`, and the version of the AI SDK. */
export type ChatTransportOptions = ClientOptions & {
  /** The major version of the package `ai`. Default: 7. */
  readonly sdk?: 6 | 7;
};

/** A message of the AI SDK, as far as the transport reads it. */
type PostedMessage = {
  readonly id: string;
  readonly role: string;
  readonly parts: readonly { readonly type: string; readonly toolCallId?: string }[];
};

/**
 * A `ChatTransport` of the package `ai`, which this library does not import. `Chunk` is its `UIMessageChunk`; the
 * compiler infers it.
 */
export type UiChatTransport<Chunk> = {
  /** For version 7 of the SDK: a resumed stream repeats the open message from its start. */
  readonly resumeStreamIsReplay: true;
  readonly sendMessages: (options: {
    readonly trigger: "submit-message" | "regenerate-message";
    readonly chatId: string;
    readonly messageId: string | undefined;
    readonly messages: readonly PostedMessage[];
    readonly abortSignal: AbortSignal | undefined;
  }) => Promise<ReadableStream<Chunk>>;
  readonly reconnectToStream: (options: {
    readonly chatId: string;
    readonly abortSignal?: AbortSignal | undefined;
  }) => Promise<ReadableStream<Chunk> | null>;
};

/** An open response: its frames, and what it streams; `null`: nothing was started, or a proxy removed the header. */
type Connection = {
  readonly frames: Pick<FrameStream, "next" | "close">;
  readonly sessionId: string | null;
  readonly turnId: string | null;
};

/** What the transport knows of a chat. */
class ChatState {
  /** How often the stream of the chat was resumed. */
  resumes = 0;
  /** The cancellation of the newest turn, while it is requested. */
  stopping: Promise<void> | null = null;
  /**
   * The last event of the newest stream that ended with its turn: waiting continues after it. `null`: there is none.
   */
  known: { readonly sessionId: string; readonly cursor: string } | null = null;
  /** The ids of the messages that were sent: the chat shows them already. */
  readonly sent = new Set<string>();
  /** The number of streams of the chat that are open or requested. */
  #streams = 0;
  #occupied = new AbortController();
  #waiters: (() => void)[] = [];

  /** Begins a stream: nothing waits for a turn until the returned function is called. */
  occupy(): () => void {
    this.#streams += 1;
    this.known = null;
    this.#occupied.abort(new Error("the chat has a stream of its own"));
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      this.#streams -= 1;
      if (this.#streams > 0) return;
      this.#occupied = new AbortController();
      for (const go of this.#waiters.splice(0)) go();
    };
  }

  /** Resolves when the chat has no stream, with a signal that aborts when it has one again. */
  async free(): Promise<AbortSignal> {
    while (this.#streams > 0) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
      // A chat that asks for the next stream when one has ended withdraws the request that waits here.
      await nextTask();
    }
    return this.#occupied.signal;
  }
}

/** Opens the first response of a stream. With a `backoff`: again, because nothing of it was received. */
type Connect = (backoff: Backoff | null) => Promise<Connection>;

/**
 * A transport for `useChat` that survives restarts of the server and cut connections: it reconnects after its cursor,
 * and no word is lost or shown twice. `url` is the base URL of the API, as for `createClient`. The server needs the
 * dialect `aiSdkChat()`.
 *
 * @example
 * ```ts
 * import { chatTransport } from "everturn/client";
 *
 * // useChat({ id, resume: true, transport })
 * const transport = chatTransport({ url: "/" });
 * typeof transport.sendMessages; // => "function"
 * ```
 */
export function chatTransport<Chunk>({ sdk = 7, ...options }: ChatTransportOptions): UiChatTransport<Chunk> {
  const sender = senderOf({ ...options, headers: { ...options.headers, "ai-sdk-version": `${sdk}` } });
  const chats = new Map<string, ChatState>();
  const stateOf = (chatId: string): ChatState => {
    const state = chats.get(chatId) ?? new ChatState();
    chats.set(chatId, state);
    return state;
  };

  /** Opens a stream, and cancels its turn when the signal aborts. `release` is called when the stream has ended. */
  async function open(
    { chatId, signal, repeat }: { readonly chatId: string; readonly signal: AbortSignal | undefined } & Repeat,
    connect: Connect,
    release: () => void,
  ): Promise<ReadableStream<Chunk>> {
    const state = stateOf(chatId);
    let isAborted = false;
    try {
      await state.stopping;
      signal?.throwIfAborted();
      const connecting = connect(null);
      const closing = new AbortController();
      const stop = async (): Promise<void> => {
        const resumed = state.resumes;
        await nextTask();
        const connection = state.resumes === resumed ? await connecting.catch(() => null) : null;
        if (connection !== null && connection.turnId !== null) await cancelTurn(sender, chatId, connection.turnId);
        closing.abort(signal?.reason);
        release();
      };
      const aborted = new Promise<never>((_, reject) => {
        const abort = (): void => {
          isAborted = true;
          reject(signal?.reason);
          const stopping = stop().finally(() => {
            if (state.stopping === stopping) state.stopping = null;
          });
          state.stopping = stopping;
        };
        signal?.addEventListener("abort", abort, { once: true });
      });
      aborted.catch(() => undefined);
      const connection = await Promise.race([connecting, aborted]);
      const { turnId } = connection;
      const resume = async (after: string | null, backoff: Backoff): Promise<Connection | null> =>
        after === null && repeat === "idempotent"
          ? connect(backoff)
          : openStream(sender, chatId, { turn: turnId ?? undefined, after }, { backoff });
      return streamOf(readChunks<Chunk>(sender, state, connection, resume, closing.signal), closing, release);
    } catch (error) {
      // Else `stop` calls it, when the turn is cancelled.
      if (!isAborted) release();
      throw error;
    }
  }

  return {
    resumeStreamIsReplay: true,
    sendMessages: async ({ chatId, messages, trigger, messageId, abortSignal: signal }) => {
      const isNew = trigger === "submit-message";
      const edited = isNew && messageId !== undefined ? messages.find(({ id }) => id === messageId) : undefined;
      const newest = edited ?? messages.at(-1);
      const body = { id: chatId, trigger, messageId, messages: newest === undefined ? [] : [posted(newest)] };
      const forks = !isNew || (messageId !== undefined && newest?.role === "user");
      const repeat = forks ? "at_most_once" : "idempotent";
      const request = { ...streamRequest, method: "POST", path: "/ui/chat", body, repeat } as const;
      const connect: Connect = async (backoff) => {
        const connection = await connectTo(sender, request, { backoff });
        if (connection === null) throw new ClientError("unexpected_answer", "the response to a message has no body");
        return connection;
      };
      const state = stateOf(chatId);
      if (newest !== undefined) state.sent.add(newest.id);
      return open({ chatId, signal, repeat }, connect, state.occupy());
    },
    reconnectToStream: async ({ chatId, abortSignal: signal }) => {
      const state = stateOf(chatId);
      state.resumes += 1;
      let release: (() => void) | null = null;
      const connect: Connect = async () => {
        const connection = await nextTurn(sender, chatId, state, signal ?? new AbortController().signal);
        release ??= state.occupy();
        return connection;
      };
      return open({ chatId, signal, repeat: "idempotent" }, connect, () => release?.());
    },
  };
}

/** Whether a request may be sent again ({@link ApiRequest}). */
type Repeat = Pick<ApiRequest, "repeat">;

const streamRequest = { headers: { accept: "text/event-stream" }, signal: null } as const;

/** How a response is waited for. Default: the retries of a request, and no signal. */
type Waiting = { readonly backoff?: Backoff | null; readonly signal?: AbortSignal };

/** Sends a request whose response is a connection; `null` for 204. */
function connectTo(
  sender: Sender,
  request: ApiRequest,
  { backoff = null, signal }: Waiting,
): Promise<Connection | null> {
  const read: ReadAnswer<Connection | null> = async (response) => {
    if (response.status === 204) return null;
    const idIn = (name: string): string | null => {
      const id = response.headers.get(name);
      return id === null ? null : decodeURIComponent(id);
    };
    const frames = await readFrames(sender, signal ?? null)(response, request);
    return { frames, sessionId: idIn("everturn-session"), turnId: idIn("everturn-turn") };
  };
  const sent = signal === undefined ? request : { ...request, signal };
  return send(sender, sent, read, ...(backoff === null ? [] : [backoff]));
}

/** What to stream: a turn, or the next one (`wait`); after an event, which is one of `session`. */
type StreamPosition = {
  readonly turn?: string | undefined;
  readonly wait?: true;
  readonly session?: string;
  readonly after: string | null;
};

function openStream(
  sender: Sender,
  chatId: string,
  { after, ...fields }: StreamPosition,
  waiting: Waiting,
): Promise<Connection | null> {
  const path = pathOf("/ui/chat/{id}/stream", [chatId]) + query(fields);
  const headers = { ...streamRequest.headers, ...(after === null ? {} : { "last-event-id": after }) };
  return connectTo(sender, { ...streamRequest, method: "GET", path, headers, repeat: "idempotent" }, waiting);
}

/** How long the transport waits before it asks again for a chat that has no session yet, in milliseconds. */
const absentRetry = { baseMs: 4000, maxMs: 10_000 };

/** Waits for a turn that the transport does not stream itself. Rejects when the signal aborts. */
async function nextTurn(sender: Sender, chatId: string, state: ChatState, signal: AbortSignal): Promise<Connection> {
  const lost = new Backoff(Infinity, sender.retry, sender.clock);
  const absent = new Backoff(Infinity, { ...sender.retry, ...absentRetry }, sender.clock);
  for (;;) {
    const waiting = AbortSignal.any([signal, await unlessAborted(state.free(), signal)]);
    // Ends this connection while it waits, and not the stream that it becomes.
    const closing = new AbortController();
    const close = (): void => closing.abort(waiting.reason);
    waiting.addEventListener("abort", close, { once: true });
    try {
      const { known } = state;
      const position = known === null ? { after: null } : { session: known.sessionId, after: known.cursor };
      const attempt = { backoff: lost, signal: closing.signal };
      const connection = await openStream(sender, chatId, { wait: true, ...position }, attempt);
      // The turn that starts the session is after its first event.
      if (connection === null) state.known = { sessionId: chatId, cursor: "0" };
      const turn = connection === null ? null : await firstChunk(connection, state, lost);
      if (turn !== null && !waiting.aborted) return turn;
      await (connection === null ? absent : lost).wait(null, waiting);
    } catch (error) {
      signal.throwIfAborted();
      if (!waiting.aborted) throw error;
    } finally {
      waiting.removeEventListener("abort", close);
    }
  }
}

/** The connection when the first chunk of a turn was received; `null`: it ended before. */
async function firstChunk(
  { frames, sessionId, turnId }: Connection,
  state: ChatState,
  backoff: Backoff,
): Promise<Connection | null> {
  for (let next = await frames.next(); next.type === "frame"; next = await frames.next()) {
    const { data, id } = next.frame;
    if (data === "[DONE]") break;
    const chunk: Received<object> = JSON.parse(data);
    if (chunk.type === "data-waiting") {
      backoff.reset();
      if (id !== null && sessionId !== null) state.known = { sessionId, cursor: id };
      continue;
    }
    if (chunk.type === "error" && transient.test(chunk.errorText ?? "")) break;
    let first: NextFrame | null = next;
    const read = async (): Promise<NextFrame> => {
      const taken = first ?? frames.next();
      first = null;
      return taken;
    };
    const started = turnId ?? chunk.messageMetadata?.turnId ?? null;
    return { sessionId, turnId: started, frames: { next: read, close: frames.close } };
  }
  frames.close();
  return null;
}

async function cancelTurn(sender: Sender, chatId: string, turnId: string): Promise<void> {
  const path = pathOf("/ui/chat/{id}/stop", [chatId]);
  const request = { method: "POST", path, body: { turnId }, repeat: "idempotent", signal: null } as const;
  // Not reported: the SDK has ended its request and has no reader for an error. The turn then goes on.
  await send(sender, request, readNothing).catch(() => undefined);
}

/**
 * A message without what the server does not read: the assistant's texts, and what the calls of earlier steps returned.
 * They may be larger than a request may be.
 */
function posted({ id, role, parts }: PostedMessage): PostedMessage {
  if (role !== "assistant") return { id, role, parts };
  const step = parts.findLastIndex(({ type }) => type === "step-start");
  const read = parts.flatMap((part, index): PostedMessage["parts"] => {
    if (part.type === "step-start") return [part];
    if (!part.type.startsWith("tool-") && part.type !== "dynamic-tool") return [];
    if (index > step) return [part];
    const { type, toolCallId = "" } = part;
    return [{ type, toolCallId }];
  });
  return { id, role, parts: read };
}

/** Failures of a process, after which another process, or the same one after its restart, can go on with the turn. */
const transient = /^(?:shutting_down|lease_lost|storage_busy|storage_failed|too_many_requests): /;

type Received<Chunk> = Chunk & {
  readonly type: string;
  readonly errorText?: string;
  readonly id?: string;
  readonly messageMetadata?: { readonly turnId?: string };
};

/** Yields the chunks of a turn across connections, in batches. `resume` opens the next one. */
async function* readChunks<Chunk>(
  sender: Sender,
  state: ChatState,
  first: Connection,
  resume: (after: string | null, backoff: Backoff) => Promise<Connection | null>,
  signal: AbortSignal,
): AsyncGenerator<readonly Chunk[], undefined> {
  const filter = new StreamFilter();
  const backoff = new Backoff(sender.retry.streams, sender.retry, sender.clock);
  const { turnId, sessionId } = first;
  let connection = first;
  let after: string | null = null;
  for (;;) {
    const { frames } = connection;
    signal.addEventListener("abort", frames.close, { once: true });
    if (signal.aborted) frames.close();
    let batch: Received<Chunk>[] = [];
    let reason: unknown = new Error("the stream ended before its last chunk");
    try {
      for (let next = await frames.next(); next.type === "frame"; next = await frames.next()) {
        const { data, id } = next.frame;
        const isDone = data === "[DONE]";
        if (!isDone) {
          const chunk: Received<Chunk> = JSON.parse(data);
          if (chunk.type === "error" && transient.test(chunk.errorText ?? "")) {
            reason = new Error(chunk.errorText);
            break;
          }
          batch.push(chunk);
          if (id === null && chunk.type !== "error") continue;
          after = id ?? after;
        }
        const accepted = batch.filter(
          (chunk) =>
            filter.accepts(chunk) && !(chunk.type === "data-steering-message" && state.sent.has(chunk.id ?? "")),
        );
        // Reading on after `finish` would request approvals again that a person has answered meanwhile.
        const isOver = isDone || batch.some(({ type }) => type === "error" || type === "finish");
        batch = [];
        backoff.reset();
        if (isOver && sessionId !== null && after !== null) state.known = { sessionId, cursor: after };
        if (accepted.length > 0) yield accepted;
        if (isOver) return undefined;
      }
    } finally {
      signal.removeEventListener("abort", frames.close);
      frames.close();
    }
    if (signal.aborted) return undefined;
    const lost = new ClientError("connection_lost", "the stream was cut and could not be resumed; resume it later", {
      cause: reason,
    });
    if (turnId === null || !(await backoff.wait(null, signal).catch(() => false))) throw lost;
    const reopened = await resume(after, backoff);
    if (reopened === null) throw lost;
    connection = reopened;
  }
}

/** The chunks as a stream. A reader that leaves closes the connection, and the turn goes on. */
function streamOf<Chunk>(
  batches: AsyncGenerator<readonly Chunk[], undefined>,
  closing: AbortController,
  release: () => void,
): ReadableStream<Chunk> {
  return new ReadableStream<Chunk>({
    pull: async (controller) => {
      try {
        const { done, value } = await batches.next();
        if (done !== true) {
          for (const chunk of value) controller.enqueue(chunk);
          return;
        }
      } catch (error) {
        release();
        throw error;
      }
      release();
      controller.close();
    },
    cancel: () => {
      closing.abort();
      release();
    },
  });
}
