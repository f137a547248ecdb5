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
// Invariants
//   1. Chunks are passed on when the frame with their cursor was received: a part of a batch is read again.
//   2. `stop()` cancels the turn. A request that was sent is not aborted before its response: the server may have
//      accepted the turn, and the turn would go on. The next request of the chat waits until the turn is cancelled.
//   3. A stream that is stopped and resumed in the same task (a component that is mounted again) is closed, and its turn
//      goes on.

import type { FrameStream } from "./frames.ts";
import type { ApiRequest, ReadAnswer, Sender } from "./sender.ts";
import type { ClientOptions } from "./types.ts";

import { nextTask } from "../../core/clock/clock.ts";
import { Backoff } from "./backoff.ts";
import { ClientError } from "./errors.ts";
import { readFrames } from "./event-reader.ts";
import { pathOf, query, senderOf } from "./requests.ts";
import { readNothing, send } from "./sender.ts";
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

/** An open response: its frames, and the turn that it streams; `null`: none was started. */
type Connection = { readonly frames: FrameStream; readonly turnId: string | null };

/** Opens the first response of a stream. With a `backoff`: again, because nothing of it was received. */
type Connect = (backoff: Backoff | null) => Promise<Connection | null>;

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
  /** How often the stream of a chat was resumed. */
  const resumes = new Map<string, number>();
  /** The cancellation of the newest turn of a chat, while it is requested. */
  const stops = new Map<string, Promise<void>>();

  /** Opens a stream, and cancels its turn when the signal aborts. `null`: there is no turn to read. */
  async function open(
    chatId: string,
    signal: AbortSignal | undefined,
    connect: Connect,
    repeat: "idempotent" | "at_most_once" = "idempotent",
  ): Promise<ReadableStream<Chunk> | null> {
    await stops.get(chatId);
    signal?.throwIfAborted();
    const connecting = connect(null);
    const closing = new AbortController();
    const stop = async (): Promise<void> => {
      const resumed = resumes.get(chatId);
      await nextTask();
      const connection = resumes.get(chatId) === resumed ? await connecting.catch(() => null) : null;
      if (connection !== null && connection.turnId !== null) await cancelTurn(sender, chatId, connection.turnId);
      closing.abort(signal?.reason);
    };
    const aborted = new Promise<never>((_, reject) => {
      signal?.addEventListener(
        "abort",
        () => {
          reject(signal.reason);
          const stopping = stop().finally(() => stops.get(chatId) === stopping && stops.delete(chatId));
          stops.set(chatId, stopping);
        },
        { once: true },
      );
    });
    aborted.catch(() => undefined);
    const connection = await Promise.race([connecting, aborted]);
    if (connection === null) return null;
    const { turnId } = connection;
    const resume = (after: string | null, backoff: Backoff): Promise<Connection | null> =>
      after === null && repeat === "idempotent"
        ? connect(backoff)
        : openStream(sender, chatId, { turnId, after }, backoff);
    return streamOf(readChunks<Chunk>(sender, connection, resume, closing.signal), closing);
  }

  return {
    resumeStreamIsReplay: true,
    sendMessages: async ({ chatId, messages, trigger, messageId, abortSignal }) => {
      const isNew = trigger === "submit-message";
      const edited = isNew && messageId !== undefined ? messages.find(({ id }) => id === messageId) : undefined;
      const newest = edited ?? messages.at(-1);
      const body = { id: chatId, trigger, messageId, messages: newest === undefined ? [] : [posted(newest)] };
      const forks = !isNew || (messageId !== undefined && newest?.role === "user");
      const repeat = forks ? "at_most_once" : "idempotent";
      const request = { ...streamRequest, method: "POST", path: "/ui/chat", body, repeat } as const;
      const connect: Connect = (backoff) => connectTo(sender, request, backoff);
      const stream = await open(chatId, abortSignal, connect, repeat);
      if (stream === null) throw new ClientError("unexpected_answer", "the response to a message has no body");
      return stream;
    },
    reconnectToStream: ({ chatId, abortSignal }) => {
      resumes.set(chatId, (resumes.get(chatId) ?? 0) + 1);
      return open(chatId, abortSignal, (backoff) => openStream(sender, chatId, noPosition, backoff));
    },
  };
}

const streamRequest = { headers: { accept: "text/event-stream" }, signal: null } as const;

/** Sends a request whose response is a connection; `null` for 204. */
function connectTo(sender: Sender, request: ApiRequest, backoff: Backoff | null): Promise<Connection | null> {
  const read: ReadAnswer<Connection | null> = async (response) => {
    if (response.status === 204) return null;
    const turn = response.headers.get("everturn-turn");
    const frames = await readFrames(sender, null)(response, request);
    return { frames, turnId: turn === null ? null : decodeURIComponent(turn) };
  };
  return send(sender, request, read, ...(backoff === null ? [] : [backoff]));
}

type Position = { readonly turnId: string | null; readonly after: string | null };

const noPosition: Position = { turnId: null, after: null };

/** Opens the stream of the open turn, or of a turn after a cursor. */
function openStream(
  sender: Sender,
  chatId: string,
  { turnId, after }: Position,
  backoff: Backoff | null,
): Promise<Connection | null> {
  const path = pathOf("/ui/chat/{id}/stream", [chatId]) + query(turnId === null ? {} : { turn: turnId });
  const headers = { ...streamRequest.headers, ...(after === null ? {} : { "last-event-id": after }) };
  return connectTo(sender, { ...streamRequest, method: "GET", path, headers, repeat: "idempotent" }, backoff);
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

type Received<Chunk> = Chunk & { readonly type: string; readonly errorText?: string; readonly id?: string };

/** Yields the chunks of a turn across connections, in batches. `resume` opens the next one. */
async function* readChunks<Chunk>(
  sender: Sender,
  first: Connection,
  resume: (after: string | null, backoff: Backoff) => Promise<Connection | null>,
  signal: AbortSignal,
): AsyncGenerator<readonly Chunk[], undefined> {
  const filter = new StreamFilter();
  const backoff = new Backoff(sender.retry.streams, sender.retry, sender.clock);
  const { turnId } = first;
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
        const accepted = batch.filter((chunk) => filter.accepts(chunk));
        // Reading on after `finish` would request approvals again that a person has answered meanwhile.
        const isOver = isDone || batch.some(({ type }) => type === "error" || type === "finish");
        batch = [];
        backoff.reset();
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
): ReadableStream<Chunk> {
  return new ReadableStream<Chunk>({
    pull: async (controller) => {
      const { done, value } = await batches.next();
      if (done === true) controller.close();
      else for (const chunk of value) controller.enqueue(chunk);
    },
    cancel: () => closing.abort(),
  });
}
