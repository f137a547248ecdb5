// Open requests of a stored key that is revoked or expires: streams, waits, runs, and bodies that are still received or
// sent.

import type { StoredKeys } from "everturn/http";

import { engine } from "everturn";
import { storageTables } from "everturn/advanced";
import { createHandler, storedKeys } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { allDialects } from "../../../test/dialects.ts";
import { handModel } from "../../../test/hand-model.ts";

type Sent = {
  readonly method?: string;
  readonly path: string;
  readonly body?: object;
  readonly stream?: ReadableStream<Uint8Array>;
  readonly headers?: object;
};

const uiMessage = { id: "m1", role: "user", parts: [{ type: "text", text: "hi" }] };
const agUiRun = { runId: "r1", tools: [], context: [], messages: [{ id: "m1", role: "user", content: "hi" }] };
const completion = { model: "default", messages: [{ role: "user", content: "hi" }] };
const waits = { prefer: "wait=60" };
const reads = { accept: "text/event-stream" };

/** Requests that are answered with JSON when something has ended. */
const waiting: readonly Sent[] = [
  { method: "POST", path: "/sessions", body: { id: "s2", input: "hi" }, headers: waits },
  { method: "POST", path: "/sessions/s1/reply", body: { text: "hi", whenBusy: "queue" }, headers: waits },
  { path: "/sessions/s1/turns/{turnId}", headers: waits },
  { method: "POST", path: "/v1/chat/completions", body: completion },
];

/** Requests that are answered with a stream, and how it ends. */
const streaming: readonly (Sent & { readonly end: RegExp })[] = [
  { path: "/sessions/s1/events", end: /\n: the key is not valid any more\n\n$/ },
  { path: "/sessions/s1/turns/{turnId}/events", end: /\n: the key is not valid any more\n\n$/ },
  {
    method: "POST",
    path: "/sessions",
    body: { id: "s2", input: "hi" },
    headers: reads,
    end: /\n: the key is not valid any more\n\n$/,
  },
  {
    method: "POST",
    path: "/ui/chat",
    body: { id: "s2", messages: [uiMessage] },
    end: /"type":"error","errorText":"unauthorized: .*revoked or expired"\}\n\ndata: \[DONE\]\n\n$/,
  },
  {
    method: "POST",
    path: "/ag-ui",
    body: { threadId: "s2", ...agUiRun },
    end: /"type":"RUN_ERROR","message":"the key is not valid.*","code":"unauthorized"\}\n\n$/,
  },
  {
    method: "POST",
    path: "/v1/chat/completions",
    body: { ...completion, stream: true },
    end: /"error":\{"message":"the key is not valid.*"code":"unauthorized"\}\}\n\n$/,
  },
];

async function world() {
  const clock = handClock();
  const host = memoryStorage({ clock });
  const model = handModel();
  const agent = engine({ adapter: model, model: "hand", clock });
  const sessions = runtime({ host, engines: { default: agent }, clock });
  const handler = createHandler({
    sessions,
    admin: true,
    clock,
    auth: [{ token: "the-token-of-the-operator", operator: true, name: "root" }],
    dialects: allDialects({ default: agent }),
  });
  const keys: StoredKeys = storedKeys({ host, clock });
  const { key, token } = await keys.create({ name: "ada", tenant: "shop", ttlMs: 3_600_000 });
  const { turnId } = await sessions.tenant("shop").calledBy("ada").start("hi", { id: "s1" });
  await (await model.call(1)).say("Hel");
  const send = ({ method = "GET", path, body, stream, headers = {} }: Sent): Promise<Response> =>
    handler(
      new Request(`http://localhost${path.replace("{turnId}", turnId ?? "")}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(stream === undefined ? {} : { body: stream, duplex: "half" as const }),
      }),
    );
  /** What is stored about sessions. */
  const rows = async (): Promise<string> => {
    const names = Object.keys(storageTables) as (keyof typeof storageTables)[];
    // The turn writes its live text.
    const tables = names.filter((name) => !["keys", "audit", "leases", "ledger", "pieces"].includes(name));
    return JSON.stringify(await host.read(tables.map((table) => ({ table, prefix: [] }))));
  };
  return { clock, model, sessions, send, keys, key, rows };
}

type World = Awaited<ReturnType<typeof world>>;

/** Ends the key with `end`, and returns once the server has noticed. Nothing but keys changes. */
async function endKey({ rows, clock }: World, end: () => Promise<unknown>): Promise<void> {
  const before = await rows();
  await end();
  await clock.advance(1000);
  expect((await rows()) === before).toBe(true);
}

const nameOf = ({ method = "GET", path, headers }: Sent): string =>
  `${method} ${path} ${JSON.stringify(headers ?? {})}`;

describe("when its key is revoked, within a second", () => {
  test.each(waiting.map((sent) => [nameOf(sent), sent] as const))(
    "%s gets 401, and its turn goes on",
    async (_, sent) => {
      const open = await world();
      const { model, sessions, send, keys, key } = open;
      let isAnswered = false;
      const response = send(sent).finally(() => {
        isAnswered = true;
      });
      if (sent.method === "POST" && !sent.path.includes("reply")) await (await model.call(2)).say("Hel");
      else await open.clock.advance(0);
      expect(isAnswered).toBe(false);
      await endKey(open, () => keys.revoke(key.id));
      expect((await response).status).toBe(401);
      expect(await (await response).text()).toContain("unauthorized");
      (await model.call(1)).finish();
      const turn = sessions.tenant("shop").attach("s1");
      expect((await turn.result).text).toBe("Hel");
      // A completion has no turn: no reader would get its result, so it is aborted.
      const second = sent.path === "/sessions" || sent.path.includes("reply") ? await model.call(2) : null;
      expect(second?.signal.aborted ?? false).toBe(false);
      if (sent.path.startsWith("/v1/")) expect((await model.call(2)).signal.aborted).toBe(true);
    },
  );

  test.each(streaming.map((sent) => [nameOf(sent), sent] as const))("the stream of %s ends", async (_, sent) => {
    const open = await world();
    const { model, sessions, send, keys, key } = open;
    const response = send(sent);
    if (sent.method === "POST") await (await model.call(2)).say("Hel");
    const { status, body } = await response;
    expect(status).toBe(200);
    const text = new Response(body).text();
    await endKey(open, () => keys.revoke(key.id));
    expect(await text).toMatch(sent.end);
    (await model.call(1)).finish();
    expect((await sessions.tenant("shop").attach("s1").result).text).toBe("Hel");
  });

  test("a request whose body is still received gets 401, and nothing is started", async () => {
    const open = await world();
    const { send, keys, key, clock, rows } = open;
    const before = await rows();
    const input = new TransformStream<Uint8Array, Uint8Array>();
    const response = send({ method: "POST", path: "/sessions", stream: input.readable });
    const writer = input.writable.getWriter();
    await writer.write(new TextEncoder().encode('{"input":'));
    await keys.revoke(key.id);
    await clock.advance(1000);
    await writer.write(new TextEncoder().encode('"hi"}'));
    await writer.close();
    expect((await response).status).toBe(401);
    expect((await rows()) === before).toBe(true);
  });
});

test("a wait ends when its key expires", async () => {
  const open = await world();
  const response = open.send({ path: "/sessions/s1/turns/{turnId}", headers: { prefer: "wait=60" } });
  await endKey(open, () => open.keys.rotate(open.key.id, { graceMs: 500 }));
  expect((await response).status).toBe(401);
});

test("waits and streams of other keys go on", async () => {
  const open = await world();
  const { keys, model, send, clock } = open;
  const other = await keys.create({ name: "ada", tenant: "shop" });
  const headers = { authorization: `Bearer ${other.token}`, prefer: "wait=60" };
  const response = send({ path: "/sessions/s1/turns/{turnId}", headers });
  const own = send({ path: "/sessions/s1/turns/{turnId}", headers: waits });
  await endKey(open, () => keys.revoke(open.key.id));
  expect((await own).status).toBe(401);
  await clock.advance(2000);
  (await model.call(1)).finish();
  expect((await response).status).toBe(200);
});
