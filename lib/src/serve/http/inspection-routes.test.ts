// The inspection routes: who sees which engines, instructions and scenarios.

import type { Auth, HttpOptions, Scenario } from "everturn/http";

import { engine, fake, tool, MisuseError } from "everturn";
import { createClient, createInspector } from "everturn/client";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { sharedSessions } from "../../../test/shared-sessions.ts";

const operator = "the-token-of-operators";
const caller = "the-token-of-a-caller-";

const schema = { type: "object", properties: { amount: { type: "number" } }, required: ["amount"] };
const tools = [
  tool({ name: "pay", description: "Pays.", schema, needsApproval: true, replay: "ask", handler: () => "paid" }),
  tool({
    name: "book",
    description: "Books.",
    schema,
    needsApproval: ({ amount }) => Number(amount) > 10,
    handler: () => 1,
  }),
  tool({ name: "look", description: "Looks.", schema, replay: "safe", handler: () => 1 }),
];

function world(options: Partial<HttpOptions> = {}, auth: Auth = "none") {
  const hello = () => fake({ scripts: Array.from({ length: 5 }, () => [{ type: "text", text: "Hello." } as const]) });
  const sessions = runtime({
    host: memoryStorage(),
    engines: {
      default: engine({ adapter: hello(), model: "fake:m", instructions: "Be brief.", tools }),
      other: engine({ adapter: hello(), params: { temperature: 0.5 }, adapterOptions: { headers: { "x-team": "t" } } }),
    },
  });
  const handler = createHandler({ sessions, ...sharedSessions, auth, inspect: true, ...options });
  const fetchFrom = (token?: string) => ({
    url: "http://localhost",
    fetch: (input: string | URL | Request, init?: RequestInit) => handler(new Request(input, init)),
    ...(token === undefined ? {} : { token }),
  });
  return {
    handler,
    sessions,
    inspector: (token?: string) => createInspector(fetchFrom(token)),
    client: (token?: string) => createClient(fetchFrom(token)),
  };
}

describe("GET /engines", () => {
  test("lists models, instructions and tools with their schemas, approvals and replay policies", async () => {
    const views = await world().inspector().engines();
    expect(views).toEqual([
      {
        name: "default",
        model: "fake:m",
        instructions: "Be brief.",
        tools: [
          { name: "pay", description: "Pays.", inputSchema: schema, approval: "always", rerun: "ask" },
          { name: "book", description: "Books.", inputSchema: schema, approval: "sometimes", rerun: "never" },
          { name: "look", description: "Looks.", inputSchema: schema, approval: "never", rerun: "safe" },
        ],
      },
      { name: "other", model: null, instructions: null, tools: [] },
    ]);
  });

  test("lists only the engines of a caller, without instructions", async () => {
    const { inspector } = world({}, [
      { token: operator, operator: true },
      { token: caller, tenant: "acme", engines: ["default"] },
    ]);
    expect((await inspector(operator).engines()).map(({ name, instructions }) => [name, instructions])).toEqual([
      ["default", "Be brief."],
      ["other", null],
    ]);
    expect((await inspector(caller).engines()).map(({ name, instructions }) => [name, instructions])).toEqual([
      ["default", null],
    ]);
  });
});

describe("GET /server", () => {
  test("states what the caller may do", async () => {
    const { inspector } = world({ allow: ["temperature"], inspect: { storage: "memory", scenarios: [hello] } }, [
      { token: operator, operator: true },
      { token: caller, tenant: "acme" },
    ]);
    const server = await inspector(operator).server();
    expect(server).toEqual({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      storage: "memory",
      durability: "volatile",
      search: false,
      operator: true,
      tenants: false,
      tenant: "",
      allow: ["temperature"],
      records: false,
      scenarios: [{ name: "hello", title: "Hello", description: "Says hello." }],
    });
    expect(await inspector(caller).server()).toEqual({ ...server, operator: false, tenant: "acme", scenarios: [] });
  });

  test("says who may list tenants and act in them", async () => {
    const keys = [
      { token: operator, operator: true },
      { token: "the-token-of-a-tenant", operator: true, tenant: "acme" },
      { token: "the-token-of-a-limited", operator: true, engines: ["default"] },
      { token: "the-token-of-a-reader", operator: true, scopes: ["read"] as const },
      { token: caller },
    ];
    const { inspector, client } = world({ admin: true }, keys);
    await (
      await client(caller).start("hi", { id: "s1" })
    ).result;
    const allowed = new Map<string, boolean>();
    for (const { token } of keys) {
      const { tenants } = await inspector(token).server();
      allowed.set(token, tenants);
      const listed = inspector(token).tenants();
      if (tenants) expect(await listed).toEqual({ items: [""], next: null });
      else await expect(listed).rejects.toMatchObject({ reason: "forbidden" });
    }
    expect([...allowed].filter(([, tenants]) => tenants)).toEqual([[operator, true]]);
    expect((await world({}, keys).inspector(operator).server()).tenants).toBe(false);
  });

  test("every caller is an operator without authentication", async () => {
    expect((await world().inspector().server()).operator).toBe(true);
  });
});

const hello: Scenario = {
  name: "hello",
  title: "Hello",
  description: "Says hello.",
  start: async (sessions) => ({ sessionId: (await sessions.start("hi", { id: "hello-1" })).sessionId }),
};

describe("POST /scenarios/{name}", () => {
  test("starts a session of the caller's tenant", async () => {
    const { inspector, client } = world({ inspect: { scenarios: [hello] } }, [
      { token: operator, tenant: "acme", operator: true },
    ]);
    expect(await inspector(operator).startScenario("hello")).toEqual({ sessionId: "hello-1" });
    expect((await client(operator).get("hello-1"))?.length).toBeGreaterThan(0);
  });

  test.each([
    ["a caller that is no operator", caller, "hello", "forbidden"],
    ["an operator whose key lists engines", "the-token-of-a-limited", "hello", "forbidden"],
    ["an unknown name", operator, "constructor", "not_found"],
  ])("rejects %s", async (_, token, name, reason) => {
    const { inspector } = world({ inspect: { scenarios: [hello] } }, [
      { token: operator, operator: true },
      { token: caller },
      { token: "the-token-of-a-limited", operator: true, engines: ["default"] },
    ]);
    await expect(inspector(token).startScenario(name)).rejects.toMatchObject({ reason });
  });

  test("two scenarios of one name are rejected when the handler is built", () => {
    expect(() => world({ inspect: { scenarios: [hello, hello] } })).toThrow(MisuseError);
  });
});

test.each(["/server", "/engines"])("%s does not exist without the option", async (path) => {
  const { handler } = world({ inspect: false });
  expect((await handler(new Request(`http://localhost${path}`))).status).toBe(404);
});

test("an operator that is not a boolean is rejected", async () => {
  const wrong = JSON.parse('[{"token":"the-token-of-operators","operator":"yes"}]');
  expect(() => world({}, wrong)).toThrow("operator of key 0");
  const { handler } = world({}, () => JSON.parse('{"operator":1}'));
  expect((await handler(new Request("http://localhost/server"))).status).toBe(500);
});

describe("what a turn did", () => {
  const secret = "db-7.internal";
  const hidden = "Answer like a pirate.";

  /** A session with a turn whose first model call fails, whose tool throws, and which ends. */
  async function failing(options: Partial<HttpOptions>) {
    const breaks = tool({
      name: "breaks",
      description: "Throws.",
      schema: { type: "object" },
      handler: () => {
        throw new Error(`cannot connect to ${secret}`);
      },
    });
    const adapter = fake({
      scripts: [
        [{ type: "error", reason: "provider_unavailable", message: `busy: ${secret}` }],
        [{ type: "tool_call", id: "c1", name: "breaks", arguments: {} }],
        [{ type: "text", text: "Done." }],
      ],
    });
    const agent = engine({
      adapter,
      model: "fake:m",
      instructions: hidden,
      tools: [breaks],
      retry: { maxAttempts: 2, baseDelayMs: 0 },
      options: { prepareStep: ({ step }) => (step === 1 ? { instructions: `${hidden} Now.` } : {}) },
    });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const handler = createHandler({
      sessions,
      ...sharedSessions,
      auth: [{ token: operator, operator: true }, { token: caller }],
      inspect: true,
      ...options,
    });
    const fetch = (input: string | URL | Request, init?: RequestInit) => handler(new Request(input, init));
    const inspector = createInspector({ url: "http://localhost", fetch, token: caller });
    const { turnId, result } = await sessions.start("hi", { id: "s1" });
    await result;
    const timeline = await inspector.timeline("s1", turnId ?? "");
    const details = await Promise.all(
      timeline.effects.map(({ ordinal }) => inspector.effect("s1", turnId ?? "", ordinal)),
    );
    return { inspector, timeline, details, fetch };
  }

  test("is shown without causes, messages of providers, exceptions and instructions", async () => {
    const { timeline, details } = await failing({});
    const kinds = timeline.effects.map(({ kind, state }) => `${kind} ${state}`);
    expect(kinds).toEqual(expect.arrayContaining(["model ok", "tool failed"]));
    const [first] = timeline.effects.filter(({ kind }) => kind === "model");
    expect(first?.discarded).toMatchObject([
      {
        reason: "retry",
        failure: {
          reason: "provider_unavailable",
          message: "the model call failed: provider_unavailable",
          cause: null,
        },
      },
    ]);
    const tool = timeline.effects.find(({ kind }) => kind === "tool");
    expect(tool?.failure).toMatchObject({
      reason: "handler_raised",
      message: expect.stringContaining("the tool failed"),
    });
    expect(details.length).toBe(timeline.effects.length);
    const text = JSON.stringify([timeline, details]);
    expect(text).not.toContain(secret);
    expect(text).not.toContain(hidden);
  });

  test("is shown with all details where turn records may be exported", async () => {
    const { timeline, details } = await failing({ records: true });
    expect(JSON.stringify(timeline)).toContain(secret);
    expect(JSON.stringify(details)).toContain(secret);
    expect(JSON.stringify(details)).toContain(hidden);
  });

  test("workers are for operators only", async () => {
    const { inspector, fetch } = await failing({});
    await expect(inspector.workers()).rejects.toMatchObject({ reason: "forbidden" });
    expect(await createInspector({ url: "http://localhost", fetch, token: operator }).workers()).toEqual([]);
  });

  test.each(["x", "1.5", "-1"])("an ordinal must be a whole number: %s", async (ordinal) => {
    const { timeline, fetch } = await failing({});
    const path = `http://localhost/sessions/s1/turns/${timeline.turn.turnId}/effects/${ordinal}`;
    expect((await fetch(path, { headers: { authorization: `Bearer ${caller}` } })).status).toBe(404);
  });
});
