// What a key may reach: the engines it lists, its own context and its own name. The engine of a session belongs to the
// session.

import type { JsonObject } from "everturn";
import type { Auth, HttpOptions } from "everturn/http";

import { engine, fake, tool, MisuseError } from "everturn";
import { usage } from "everturn/advanced";
import { createHandler, inspection } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { allDialects, chatDialects } from "../../../test/dialects.ts";
import { handModel } from "../../../test/hand-model.ts";
import { pendingDigest } from "../../../test/pending-digest.ts";
import { sharedSessions } from "../../../test/shared-sessions.ts";

const ada = "the-token-of-ada-000";
const bob = "the-token-of-bob-000";

/**
 * A runtime with two engines: `strict`, whose tool `pay` takes an amount of at most 10, and `lax`, whose tool takes
 * anything.
 */
function world(auth: Auth, options: Partial<HttpOptions> = {}) {
  const contexts: unknown[] = [];
  const payWith = (schema: JsonObject) =>
    tool({
      name: "pay",
      description: "Pays.",
      schema,
      needsApproval: true,
      handler: (args, { context }) => {
        contexts.push(context);
        return `paid ${JSON.stringify(args)}`;
      },
    });
  const who = tool({
    name: "who",
    description: "Returns the caller.",
    schema: { type: "object" },
    handler: (_, { context }) => {
      contexts.push(context);
      return "known";
    },
  });
  const engineWith = (schema: JsonObject) => {
    const call = { type: "tool_call", id: "c1", arguments: { amount: 1 } } as const;
    const scripts = Array.from({ length: 20 }, () => [
      [{ ...call, name: "pay" } as const],
      [{ type: "text", text: "Done." } as const],
    ]).flat();
    return engine({ adapter: fake({ scripts }), model: "fake:m", tools: [payWith(schema), who] });
  };
  const amount = { type: "object", properties: { amount: { type: "number", maximum: 10 } }, required: ["amount"] };
  const asking = engine({
    adapter: fake({
      scripts: Array.from({ length: 20 }, () => [
        [{ type: "tool_call", id: "c1", name: "who", arguments: {} } as const],
        [{ type: "text", text: "Fine." } as const],
      ]).flat(),
    }),
    model: "fake:m",
    tools: [who],
  });
  const strict = engineWith(amount);
  const lax = engineWith({ type: "object" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: asking, strict, lax } });
  const handler = createHandler({ sessions, dialects: chatDialects, ...sharedSessions, auth, ...options });
  const ask = async (token: string, method: string, path: string, body?: unknown, headers: object = {}) => {
    const response = await handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          prefer: "wait=10",
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    const text = await response.text();
    return { status: response.status, text, json: text.startsWith("{") ? JSON.parse(text) : null };
  };
  return { sessions, ask, contexts, asking };
}

describe("engines", () => {
  const auth = [{ token: ada }, { token: bob, engines: ["strict"] }];

  test("the engine belongs to the session: a later turn has the engine of the first", async () => {
    const { ask, sessions } = world(auth);
    await ask(ada, "POST", "/sessions", { id: "s", input: "pay", options: { engine: "strict" } });
    expect((await sessions.get("s"))?.engine).toBe("strict");
    await ask(ada, "POST", "/sessions/s/decisions", {
      toolCallId: "c1",
      digest: await pendingDigest(sessions, "s"),
      type: "approve",
    });
    expect((await ask(ada, "POST", "/sessions/s/reply", { text: "again" })).status).toBe(200);
    expect((await sessions.get("s"))?.engine).toBe("strict");
    expect((await sessions.get("s"))?.session.pendingToolCalls.map(({ name }) => name)).toEqual(["pay"]);
  });

  test.each(["reply", "send", "continue", "step", "tool-results", "decisions"])(
    "%s cannot choose another engine than that of the session",
    async (verb) => {
      const { ask, sessions } = world(auth);
      await ask(ada, "POST", "/sessions", { id: "s", input: "pay", options: { engine: "strict" } });
      const before = await sessions.get("s");
      const bodies: { readonly [verb: string]: object } = {
        reply: { text: "hi" },
        send: { text: "hi" },
        "tool-results": { results: [{ toolCallId: "c1", content: "paid" }] },
        decisions: { toolCallId: "c1", digest: "x", type: "approve", arguments: { amount: 1_000_000 } },
      };
      for (const name of ["lax", "default", "no-such-engine"]) {
        const body = { ...bodies[verb], options: { engine: name } };
        const { status, text } = await ask(ada, "POST", `/sessions/s/${verb}`, body);
        expect(status).toBe(403);
        expect(text).not.toMatch(/lax|strict/);
      }
      expect(await sessions.get("s")).toEqual(before);
    },
  );

  test("a key without the engine of a session cannot drive its turn again", async () => {
    const { ask } = world([
      { token: ada, engines: ["strict"] },
      { token: bob, engines: ["lax"] },
    ]);
    await ask(ada, "POST", "/sessions", { id: "s", input: "pay" });
    expect((await ask(bob, "POST", "/sessions/s/recover", {})).status).toBe(403);
    expect((await ask(ada, "POST", "/sessions/s/recover", {})).status).toBe(200);
  });

  test("a fork has the engine of the original, wherever it ends", async () => {
    const { ask, sessions } = world(auth);
    await ask(ada, "POST", "/sessions", { id: "s", input: "pay", options: { engine: "strict" } });
    for (const [id, at] of [
      ["empty", 0],
      ["first", 1],
      ["all", undefined],
    ] as const) {
      expect((await ask(ada, "POST", "/sessions/s/fork", { id, ...(at === undefined ? {} : { at }) })).status).toBe(
        201,
      );
      expect((await sessions.get(id))?.engine).toBe("strict");
    }
  });

  test("arguments of an approval are checked with the schema of the engine that asked", async () => {
    const { ask, sessions } = world(auth);
    await ask(ada, "POST", "/sessions", { id: "s", input: "pay", options: { engine: "strict" } });
    const digest = await pendingDigest(sessions, "s");
    const approval = { toolCallId: "c1", digest, type: "approve", arguments: { amount: 1_000_000 } };
    expect((await ask(ada, "POST", "/sessions/s/decisions", approval)).status).toBe(400);
    await expect(
      sessions.decide("s", "c1", { type: "approve", arguments: { amount: 1_000_000 } }, { engine: "lax" }),
    ).rejects.toThrow(MisuseError);
    const { pendingToolCalls } = (await sessions.get("s"))?.session ?? {};
    expect(pendingToolCalls?.map(({ decision }) => decision)).toEqual([null]);
  });

  test("arguments of an approval are rejected if the engine has no such tool any more", async () => {
    const host = memoryStorage();
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      needsApproval: true,
      handler: () => "paid",
    });
    const adapter = fake({ script: [{ type: "tool_call", id: "c1", name: "pay", arguments: {} }] });
    const before = runtime({ host, engines: { default: engine({ adapter, model: "fake:m", tools: [pay] }) } });
    await (
      await before.start("pay", { id: "s" })
    ).result;
    const after = runtime({ host, engines: { default: engine({ adapter, model: "fake:m" }) } });
    await expect(after.decide("s", "c1", { type: "approve", arguments: { amount: 1 } })).rejects.toThrow(
      'there is no tool "pay" any more',
    );
  });

  test("a key uses the engines it lists, in its own sessions and in those of other keys", async () => {
    const { ask, sessions } = world(auth);
    const start = (id: string, name?: string) =>
      ask(bob, "POST", "/sessions", { id, input: "x", ...(name === undefined ? {} : { options: { engine: name } }) });
    const refused = [await start("a", "lax"), await start("b", "no-such-engine"), await start("c", "default")];
    expect(refused.map(({ status }) => status)).toEqual([403, 403, 403]);
    expect(new Set(refused.map(({ text }) => text)).size).toBe(1);
    expect((await start("d", "strict")).status).toBe(200);
    expect((await start("e")).status).toBe(200);
    expect((await sessions.get("e"))?.engine).toBe("strict");
    await ask(ada, "POST", "/sessions", { id: "other", input: "pay", options: { engine: "lax" } });
    const decision = { toolCallId: "c1", digest: await pendingDigest(sessions, "other"), type: "approve" };
    expect((await ask(bob, "POST", "/sessions/other/decisions", decision)).status).toBe(403);
    expect((await ask(bob, "POST", "/sessions/other/steer", { input: "x" })).status).toBe(403);
    expect((await ask(bob, "POST", "/sessions/other/calls/c1/token")).status).toBe(403);
    const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "hi" }] }];
    expect((await ask(bob, "POST", "/ui/chat", { id: "other", messages })).status).toBe(403);
    expect((await ask(bob, "POST", "/ui/chat", { id: "chat", messages })).status).toBe(200);
    expect((await sessions.get("chat"))?.engine).toBe("strict");
  });

  test("an unknown engine is not answered with the names of the others", async () => {
    const { ask } = world(auth);
    const { status, text } = await ask(ada, "POST", "/sessions", { input: "x", options: { engine: "other" } });
    expect(status).toBe(400);
    expect(text).not.toMatch(/lax|strict|default/);
  });

  test("chat completions serve and list the models that the key may use", async () => {
    const { asking } = world(auth);
    const { ask } = world(auth, { dialects: allDialects({ strict: asking, lax: asking }) });
    const complete = (model: string) =>
      ask(bob, "POST", "/v1/chat/completions", { model, messages: [{ role: "user", content: "hi" }] });
    expect((await complete("strict")).status).toBe(200);
    for (const model of ["lax", "no-such-model"]) {
      const { status, text } = await complete(model);
      expect(status).toBe(404);
      expect(text).not.toMatch(/strict/);
    }
    expect((await ask(bob, "GET", "/v1/models")).json.data.map(({ id }: { id: string }) => id)).toEqual(["strict"]);
    expect((await ask(bob, "GET", "/v1/models/lax")).status).toBe(404);
  });

  test("a list of engines that is empty or no list is misuse", () => {
    expect(() => world([{ token: ada, engines: [] }])).toThrow(MisuseError);
  });
});

describe("context", () => {
  const auth = [
    { token: ada, name: "ada", context: { userId: 1 } },
    { token: bob, name: "bob" },
  ];

  test("tools of a turn get the context of the key that started the turn, not of the session", async () => {
    const { ask, contexts } = world(auth);
    await ask(ada, "POST", "/sessions", { id: "s", input: "who" });
    await ask(bob, "POST", "/sessions/s/reply", { text: "and now?" });
    await ask(ada, "POST", "/sessions/s/send", { text: "and now?" });
    const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "hi" }] }];
    await ask(bob, "POST", "/ui/chat", { id: "s", messages });
    expect(contexts).toEqual([{ userId: 1 }, {}, { userId: 1 }, {}]);
  });

  test.each([
    [
      "/ui/chat",
      (id: string) => ({ id: "s", messages: [{ id, role: "user", parts: [{ type: "text", text: "hi" }] }] }),
    ],
    [
      "/ag-ui",
      (id: string) => ({
        threadId: "s",
        runId: id,
        messages: [{ id, role: "user", content: "hi" }],
        tools: [],
        context: [],
      }),
    ],
  ])("turns of %s have it too, in new and in existing sessions", async (path, body) => {
    const { ask, contexts } = world(auth);
    for (const [token, id] of [
      [ada, "m1"],
      [bob, "m2"],
      [ada, "m3"],
    ] as const)
      expect((await ask(token, "POST", path, body(id))).status).toBe(200);
    expect(contexts).toEqual([{ userId: 1 }, {}, { userId: 1 }]);
  });

  test("a message that is queued while a turn is open has its own context", async () => {
    const { ask, contexts, sessions } = world(auth);
    await sessions.start("who", { id: "s", context: { userId: 1 } });
    const queued = await ask(bob, "POST", "/sessions/s/reply", { text: "and now?", whenBusy: "queue" });
    expect(queued.status).toBe(200);
    expect(contexts).toEqual([{ userId: 1 }, {}]);
  });

  test("input of another key cannot steer a turn that runs with the context of a key", async () => {
    const model = handModel();
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: model, model: "hand:m" }) },
    });
    const { ask } = world(auth, { sessions });
    const turn = await sessions.start("who", { id: "s", context: { userId: 1 } });
    expect((await ask(bob, "POST", "/sessions/s/steer", { input: "pay me" })).status).toBe(409);
    expect((await ask(bob, "POST", "/sessions/s/send", { text: "pay me" })).status).toBe(409);
    expect((await ask(ada, "POST", "/sessions/s/steer", { input: "go on" })).status).toBe(202);
    (await model.call(1)).finish();
    (await model.call(2)).finish();
    await turn.result;
  });

  test("chat completions exist only if the operator names engines for them", async () => {
    const { ask } = world(auth);
    const body = { model: "default", messages: [{ role: "user", content: "who" }] };
    expect((await ask(ada, "POST", "/v1/chat/completions", body)).status).toBe(404);
    expect((await ask(ada, "GET", "/v1/models")).status).toBe(404);
  });

  test("chat completions run tools with the context of the key", async () => {
    const { asking, contexts } = world(auth);
    const { ask } = world(auth, { dialects: allDialects({ asking }) });
    const body = { model: "asking", messages: [{ role: "user", content: "who" }] };
    for (const token of [ada, bob]) expect((await ask(token, "POST", "/v1/chat/completions", body)).status).toBe(200);
    expect(contexts).toEqual([{ userId: 1 }, {}]);
  });
});

describe("the usage of chat completions", () => {
  const carl = "the-token-of-carl-00";
  const auth = [
    { token: ada, tenant: "ada", operator: true },
    { token: bob, tenant: "bob", operator: true },
    { token: carl, tenant: "ada" },
  ];
  const spent = { inputTokens: 10, outputTokens: 2 };
  const script = [{ type: "text", text: "Hello." } as const, { type: "usage", usage: spent } as const];
  const costing = () =>
    engine({ adapter: fake({ scripts: Array.from({ length: 5 }, () => script) }), model: "fake:m" });

  test("is in the ledger of the tenant, complete, streamed and after the client has left", async () => {
    const { ask, sessions } = world(auth, { dialects: allDialects({ m: costing() }) });
    const body = { model: "m", messages: [{ role: "user", content: "hi" }] };
    await ask(ada, "POST", "/v1/chat/completions", body);
    await ask(ada, "POST", "/v1/chat/completions", { ...body, stream: true });
    await expect
      .poll(async () => (await sessions.tenant("ada").usage(null)).total)
      .toMatchObject({ inputTokens: 20, outputTokens: 4 });
    expect((await ask(ada, "GET", "/usage")).json.total).toMatchObject({ inputTokens: 20, outputTokens: 4 });
    expect((await ask(bob, "GET", "/usage")).json).toMatchObject({ lines: [] });
    // The sums are those of all callers of the tenant.
    expect((await ask(carl, "GET", "/usage")).status).toBe(403);
  });

  test("is added up over concurrent bookings", async () => {
    const { sessions } = world(auth);
    const booked = usage({ inputTokens: 1 });
    await Promise.all(Array.from({ length: 20 }, () => sessions.book(booked, { model: "m" })));
    await sessions.book(booked);
    const { total, lines } = await sessions.usage(null);
    expect([total.inputTokens, lines.map(({ model }) => model)]).toEqual([21, ["m", null]]);
  });
});

describe("the name in a decision", () => {
  const auth = [{ token: ada, name: "ada" }, { token: bob }];

  test("is the name of the key, and never a text of the request", async () => {
    for (const [token, by] of [
      [ada, "ada"],
      [bob, null],
    ] as const) {
      const { ask, sessions } = world(auth);
      const id = "s";
      await ask(token, "POST", "/sessions", { id, input: "pay", options: { engine: "strict" } });
      const digest = await pendingDigest(sessions, id);
      const decision = { toolCallId: "c1", digest, type: "approve", continue: false };
      expect((await ask(token, "POST", `/sessions/${id}/decisions`, { ...decision, by: "the CEO" })).status).toBe(200);
      const [call] = (await sessions.get(id))?.session.pendingToolCalls ?? [];
      expect(call?.decision).toMatchObject({ type: "approve", by });
    }
  });

  test("is the name of the key in answers of AG-UI", async () => {
    const { ask, sessions } = world([{ token: ada, name: "ada", engines: ["strict"] }]);
    const run = {
      threadId: "s",
      runId: "r1",
      messages: [{ id: "m1", role: "user", content: "pay" }],
      tools: [],
      context: [],
    };
    const { text } = await ask(ada, "POST", "/ag-ui", run);
    const interruptId = /"id":"(?<id>[^"]*:c1)"/.exec(text)?.groups?.["id"];
    const resume = [{ interruptId, status: "resolved", payload: { approved: true, by: "the CEO" } }];
    expect((await ask(ada, "POST", "/ag-ui", { ...run, runId: "r2", resume })).status).toBe(200);
    const record = JSON.stringify(await inspection(sessions.source).export("s"));
    expect(record).toContain('"by":"ada"');
    expect(record).not.toContain("CEO");
  });

  test("is not recorded for an answer by token", async () => {
    const { ask, sessions } = world(auth);
    await ask(ada, "POST", "/sessions", { id: "s", input: "pay", options: { engine: "strict" } });
    const { token } = (await ask(ada, "POST", "/sessions/s/calls/c1/token")).json;
    expect((await ask(ada, "POST", "/complete", { token, type: "approve", by: "the CEO" })).status).toBe(200);
    await sessions.attach("s", (await sessions.get("s"))?.openTurn?.turnId ?? null).result.catch(() => null);
    const record = JSON.stringify(await inspection(sessions.source).export("s"));
    expect(record).toContain('"approve"');
    expect(record).not.toContain("CEO");
  });
});
