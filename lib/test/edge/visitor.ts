// An HTTP client of the worker, from Node: turns as streams and as JSON responses, and turns that span several
// requests.

import type { SceneResults } from "./scenes.ts";
import type { Json } from "everturn";

type Server = { readonly url: string; readonly token: string };
type Frame = { readonly id: string; readonly event: string; readonly data: string };

const patienceMs = 10_000;

/** A handler that is created while the module loads. */
async function callEarly({ url, token }: Server): Promise<Json> {
  const health = await ask({ url, token }, "/health");
  const refused = await ask({ url, token: "another-0123456789" }, "/sessions");
  const frames = await framesOf(await ask({ url, token }, "/sessions", { input: "hi" }, "text/event-stream"));
  return { health: health.status, refused: refused.status, text: textIn(frames), last: frames.at(-1)?.event ?? null };
}

/** Turns that one request starts and ends, and others read. */
async function callTurns(server: Server): Promise<Json> {
  const streamed = await ask(server, "/sessions", { input: "The weather in Zürich?", id: "s1" }, "text/event-stream");
  const frames = await framesOf(streamed);
  const middle = frames.find(({ data }) => data.includes("tool_execution_completed"))?.id ?? "";
  const rest = await framesOf(
    await ask(server, "/sessions/s1/events?follow=false", null, "text/event-stream", { "last-event-id": middle }),
  );
  const waited = await ask(server, "/sessions/s1/reply", { text: "And now?" }, "application/json", {
    prefer: "wait=10",
  });
  const { text }: { readonly text: Json } = await jsonOf(waited);
  return {
    status: streamed.status,
    shown: textIn(frames),
    inPieces: frames.filter(({ data }) => data.includes(`"text_delta"`)).length > 1,
    last: frames.at(-1)?.event ?? null,
    resumed: rest.length > 0 && rest.length < frames.length,
    waited: waited.status,
    text,
  };
}

/**
 * More requests than a tenant may begin in one tick of the event loop, one after the other and at once: none waits for
 * another, which may have ended.
 */
async function callOften(server: Server): Promise<Json> {
  const read = async (): Promise<number> => (await ask(server, "/sessions/s1")).status;
  const statuses: number[] = [];
  for (let index = 0; index < 20; index += 1) statuses.push(await read());
  statuses.push(...(await Promise.all(Array.from({ length: 20 }, read))));
  return { read: statuses.filter((status) => status === 200).length, of: statuses.length };
}

/**
 * A turn that one request starts, others read, and another ends; and a turn that continues after its reader has
 * disconnected.
 */
async function callKept(server: Server): Promise<Json> {
  const one = await ask(server, "/sessions", { input: "Tell me something for ever.", id: "s2" }, "text/event-stream");
  const beginner = new Reading(one);
  await beginner.until("Once ");
  const watcher = new Reading(await ask(server, "/sessions/s2/events", null, "text/event-stream"));
  await watcher.until("Once ");
  await watcher.until(": heartbeat");
  const cancelled: Json = await jsonOf(await ask(server, "/sessions/s2/cancel", {}));
  await beginner.until("event: end");
  await watcher.until("chat_completed");
  await watcher.leave();

  const left = new Reading(await ask(server, "/sessions", { input: "Zürich?", id: "s3" }, "text/event-stream"));
  await left.until("turn_started");
  await left.leave();
  const after = new Reading(await ask(server, "/sessions/s3/events", null, "text/event-stream"));
  await after.until("chat_completed");
  await after.leave();
  const view: { readonly session: { readonly status: string } } = await jsonOf(await ask(server, "/sessions/s3"));
  return { cancelled, afterLeaving: view.session.status };
}

async function settledResult(what: Promise<Json>): Promise<Json> {
  return what.catch((error: unknown) => `failed: ${String(error)}`);
}

/** Runs the checks and returns their results; an error is reported as text. */
export async function visitWorker(url: string, token: string, earlyToken: string): Promise<SceneResults> {
  return {
    early: await settledResult(callEarly({ url: `${url}/early`, token: earlyToken })),
    turns: await settledResult(callTurns({ url, token })),
    often: await settledResult(callOften({ url, token })),
    keptTurns: await settledResult(callTurns({ url: `${url}/kept`, token })),
    kept: await settledResult(callKept({ url: `${url}/kept`, token })),
  };
}

function ask(
  { url, token }: Server,
  path: string,
  body: object | null = null,
  accept = "application/json",
  more: { readonly [name: string]: string } = {},
): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", accept, ...more };
  const signal = AbortSignal.timeout(patienceMs);
  return fetch(
    url + path,
    body === null ? { headers, signal } : { method: "POST", headers, body: JSON.stringify(body), signal },
  );
}

async function jsonOf<T>(response: Response): Promise<T> {
  return JSON.parse(await response.text());
}

async function framesOf(response: Response): Promise<readonly Frame[]> {
  const blocks = (await response.text()).split("\n\n").filter((block) => block !== "" && !block.startsWith(":"));
  return blocks.map((block) => ({ id: field(block, "id"), event: field(block, "event"), data: field(block, "data") }));
}

function field(block: string, name: string): string {
  return new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? "";
}

function textIn(frames: readonly Frame[]): string {
  type Said = { readonly event?: { readonly type: string; readonly delta?: string } };
  const said = frames.map(({ data }): Said => JSON.parse(data));
  return said.map(({ event }) => (event?.type === "text_delta" ? (event.delta ?? "") : "")).join("");
}

/** A stream that is read up to a given point. */
class Reading {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #seen = "";

  constructor({ body, status }: Response) {
    if (body === null || status !== 200) throw new Error(`it answered ${status}`);
    this.#reader = body.getReader();
  }

  async until(words: string): Promise<void> {
    while (!this.#seen.includes(words)) {
      const { done, value } = await this.#reader.read();
      if (done) throw new Error(`the stream ended before ${JSON.stringify(words)}`);
      this.#seen += this.#decoder.decode(value, { stream: true });
    }
  }

  async leave(): Promise<void> {
    await this.#reader.cancel();
  }
}
