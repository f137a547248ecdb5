// The client of the AI SDK over a runtime: its transport, state machine, reader and schemas. The server between them is
// a function. The tests of the chat run with version 7 and with version 6 of the SDK (vitest.config.ts).

import type { UiChatOptions, UiStream } from "../src/serve/dialects/ai-sdk-chat/chat.ts";
import type { UiChunk } from "../src/serve/dialects/ai-sdk-chat/chunks.ts";
import type { UiSdk } from "../src/serve/dialects/ai-sdk-chat/translator.ts";
import type { ChatInit, ChatState, ChatStatus, UIMessage, UIMessageChunk } from "ai";
import type { Runtime } from "everturn/runtime";

import { AbstractChat, DefaultChatTransport, readUIMessageStream, uiMessageChunkSchema } from "ai";

import { loadUiChat, postUiChat, resumeUiChat } from "../src/serve/dialects/ai-sdk-chat/chat.ts";
import { failureOf } from "../src/serve/http/failure.ts";

/** The major version of the SDK that the tests run with. */
export const sdk: UiSdk = process.env["AI_SDK_VERSION"] === "6" ? 6 : 7;

/** The state of a chat in memory, as a hook of the SDK keeps it. */
class State implements ChatState<UIMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined = undefined;
  messages: UIMessage[];

  constructor(messages: readonly UIMessage[]) {
    this.messages = [...messages];
  }

  readonly pushMessage = (message: UIMessage): void => {
    this.messages = [...this.messages, message];
  };

  readonly popMessage = (): void => {
    this.messages = this.messages.slice(0, -1);
  };

  readonly replaceMessage = (index: number, message: UIMessage): void => {
    this.messages = this.messages.map((one, at) => (at === index ? structuredClone(message) : one));
  };

  readonly snapshot = <T>(thing: T): T => structuredClone(thing);
}

export class TestChat extends AbstractChat<UIMessage> {
  constructor({ messages = [], ...init }: ChatInit<UIMessage>) {
    super({ ...init, state: new State(messages) });
  }
}

/** A received request and its response. */
type Exchange = { readonly path: string; readonly body: unknown; status: number; readonly chunks: UiChunk[] };

export type Server = {
  readonly fetch: typeof fetch;
  readonly exchanges: readonly Exchange[];
  /** Breaks the newest connection after the next chunk of this type. */
  readonly cutAfter: (type: UiChunk["type"]) => void;
};

/** The three routes of a chat, without the handler around them. */
export function serve(sessions: Runtime, options: UiChatOptions = {}): Server {
  const exchanges: Exchange[] = [];
  let cut: UiChunk["type"] | null = null;
  const server: typeof fetch = async (input, init) => {
    const path = String(input);
    const text = typeof init?.body === "string" ? init.body : null;
    const body: unknown = text === null ? null : JSON.parse(text);
    const exchange: Exchange = { path, body, status: 200, chunks: [] };
    exchanges.push(exchange);
    try {
      const resumed = /^\/ui\/chat\/([^/]+)\/stream$/.exec(path)?.[1];
      const stream =
        resumed === undefined
          ? await postUiChat(sessions, body, { sdk, ...options })
          : await resumeUiChat(sessions, decodeURIComponent(resumed), { sdk });
      if (stream !== null) return new Response(bodyOf(stream, exchange), { headers });
      exchange.status = 204;
      return new Response(null, { status: 204 });
    } catch (error) {
      const { status, failure } = failureOf(error);
      exchange.status = status;
      return Response.json({ error: failure }, { status });
    }
  };

  function bodyOf({ chunks }: UiStream, exchange: Exchange): ReadableStream<Uint8Array> {
    const reading = chunks[Symbol.asyncIterator]();
    let batch: readonly UiChunk[] = [];
    const nextChunk = async (): Promise<UiChunk | null> => {
      while (batch.length === 0) {
        const { done, value } = await reading.next();
        if (done === true) return null;
        batch = value;
      }
      const [chunk = null, ...rest] = batch;
      batch = rest;
      return chunk;
    };
    const encoder = new TextEncoder();
    return new ReadableStream({
      pull: async (controller) => {
        try {
          const value = await nextChunk();
          if (value === null) {
            controller.enqueue(encoder.encode("data: [DONE]\n\n"));
            controller.close();
            return;
          }
          exchange.chunks.push(value);
          controller.enqueue(encoder.encode(`data: ${JSON.stringify(value)}\n\n`));
          if (value.type !== cut) return;
          cut = null;
          await reading.return?.();
          controller.error(new TypeError("network error"));
        } catch (error) {
          controller.error(error);
        }
      },
      cancel: async () => {
        await reading.return?.();
      },
    });
  }

  return {
    fetch: server,
    exchanges,
    cutAfter: (type) => {
      cut = type;
    },
  };
}

const headers = { "content-type": "text/event-stream", "x-vercel-ai-ui-message-stream": "v1" };

/** A chat of the SDK that uses this server. */
export function chatWith(server: Server, init: Omit<ChatInit<UIMessage>, "transport"> = {}): TestChat {
  const transport = new DefaultChatTransport<UIMessage>({ api: "/ui/chat", fetch: server.fetch });
  return new TestChat({ id: "chat", ...init, transport });
}

/** The messages that a reloaded page starts with. */
export async function loaded(sessions: Runtime, id = "chat"): Promise<UIMessage[]> {
  const chat = await loadUiChat(sessions, id);
  return JSON.parse(JSON.stringify(chat.messages));
}

/** Validates a chunk with the schema of the SDK. Throws if it is invalid. */
async function checkedChunk(chunk: UiChunk): Promise<UIMessageChunk> {
  const schema = uiMessageChunkSchema();
  const read = await schema.validate?.(JSON.parse(JSON.stringify(chunk)));
  if (read?.success === true) return read.value;
  throw new Error(`not a chunk: ${JSON.stringify(chunk)}: ${String(read?.error)}`);
}

/** The message that the reader of the SDK builds from chunks, and the errors it reports. */
export async function readChunks(
  chunks: readonly UiChunk[],
  message?: UIMessage,
): Promise<{ readonly message: UIMessage | null; readonly errors: readonly string[] }> {
  const checked = await Promise.all(chunks.map(checkedChunk));
  const errors: string[] = [];
  const stream = new ReadableStream<UIMessageChunk>({
    start: (controller) => {
      for (const chunk of checked) controller.enqueue(chunk);
      controller.close();
    },
  });
  const onError = (error: unknown) => void errors.push(error instanceof Error ? error.message : String(error));
  const states = readUIMessageStream(message === undefined ? { stream, onError } : { message, stream, onError });
  let last: UIMessage | null = null;
  for await (const state of states) last = state;
  return { message: last === null ? null : withoutWithdrawn(last), errors };
}

/**
 * The message without withdrawn steps, which a client of version 6 keeps: each one ends with a part `data-step-reset`.
 */
export function withoutWithdrawn(message: UIMessage): UIMessage {
  const parts = message.parts.reduce<UIMessage["parts"]>((shown, part) => {
    if (part.type !== "data-step-reset") return [...shown, part];
    return shown.slice(
      0,
      shown.findLastIndex(({ type }) => type === "step-start"),
    );
  }, []);
  return { ...message, parts };
}

/** The comparable part of a message: without absent fields and metadata. */
export function plainMessage(message: UIMessage | null | undefined): unknown {
  if (message === null || message === undefined) return null;
  const { id, role, parts } = message;
  return JSON.parse(JSON.stringify({ id, role, parts }));
}
