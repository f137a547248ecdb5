// GET /search: found messages, tenants, and a storage that cannot search.

import type { HostStorage } from "everturn/runtime";

import { configure, engine, fake, tool } from "everturn";
import { createInspector } from "everturn/client";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Database from "libsql";
import { afterEach, expect, onTestFinished, test } from "vitest";

import { sharedSessions } from "../../../test/shared-sessions.ts";

const tokens = { acme: "the-token-of-the-acme-", other: "the-token-of-another--" };

afterEach(() => void configure({ redact: null }));

async function served(host: HostStorage) {
  const agent = engine({ adapter: fake({ script: [{ type: "text", text: "It is on its way." }] }), model: "fake:m" });
  const sessions = runtime({ host, engines: { default: agent }, live: false });
  const turn = await sessions
    .tenant("acme")
    .start("Where is the parcel?", { id: "s1", metadata: { title: "Parcel 7" } });
  await turn.result;
  const auth = Object.entries(tokens).map(([tenant, token]) => ({ tenant, token }));
  const handler = createHandler({ sessions, ...sharedSessions, auth, inspect: true });
  return (tenant: keyof typeof tokens) =>
    createInspector({
      url: "http://localhost",
      token: tokens[tenant],
      fetch: (input, init) => handler(new Request(input, init)),
    });
}

test("returns the messages of the caller's tenant with the text around the match", async () => {
  const database = new Database(":memory:");
  onTestFinished(() => void database.close());
  const inspector = await served(sqliteStorage(database, { search: true }));
  expect((await inspector("acme").server()).search).toBe(true);
  expect(await inspector("acme").search("PARCEL whe")).toEqual([
    {
      sessionId: "s1",
      title: "Parcel 7",
      position: 0,
      role: "user",
      excerpt: "Where is the parcel?",
      matches: [
        [0, 5],
        [13, 19],
      ],
    },
  ]);
  expect(await inspector("acme").search("way")).toMatchObject([{ position: 1, role: "assistant" }]);
  expect(await inspector("other").search("parcel")).toEqual([]);
  expect(await inspector("acme").search('"; DROP TABLE (((')).toEqual([]);
  await expect(inspector("acme").search("x", { limit: 1000 })).rejects.toMatchObject({ reason: "invalid_argument" });
});

test("a storage that cannot search is reported by GET /server, and answered with 404", async () => {
  const inspector = await served(memoryStorage());
  expect((await inspector("acme").server()).search).toBe(false);
  await expect(inspector("acme").search("parcel")).rejects.toMatchObject({ reason: "not_found" });
});

test("does not find what callers may not read: exceptions of tools, and what the redaction hook replaces", async () => {
  const database = new Database(":memory:");
  onTestFinished(() => void database.close());
  const query = tool({
    name: "query",
    description: "Queries.",
    schema: { type: "object" },
    handler: () => Promise.reject(new Error("no route to vault")),
  });
  const card = "4000123412341234";
  const scripts = [
    [{ type: "tool_call", id: "c1", name: "query", arguments: {} } as const],
    [{ type: "text", text: `The vault is closed. Paid with ${card} ${"and ".repeat(14)}shipped.` } as const],
  ];
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [query] });
  const sessions = runtime({
    host: sqliteStorage(database, { search: true }),
    engines: { default: agent },
    live: false,
  });
  await (
    await sessions.start("hi", { id: "s1" })
  ).result;
  const handler = createHandler({ sessions, auth: "none", inspect: true });
  const inspector = createInspector({
    url: "http://localhost",
    fetch: (input, init) => handler(new Request(input, init)),
  });
  configure({ redact: (text) => text.replaceAll(/\d{16}/g, "[card]") });
  for (const limit of [1, 20]) expect(await inspector.search("vault", { limit })).toMatchObject([{ position: 3 }]);
  expect(await inspector.search("route")).toEqual([]);
  expect(await inspector.search("4000")).toEqual([]);
  // The excerpt begins inside of the number.
  expect(JSON.stringify(await inspector.search("shipped"))).not.toMatch(/\d{4}/);
  expect(await inspector.search("shipped")).toHaveLength(1);
});
