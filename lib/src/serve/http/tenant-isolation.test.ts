// Every route of the API with the ids of another tenant: the answers are those of a server on which the other tenant
// has no data.

import { engine, fake, tool } from "everturn";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Database from "libsql";
import { expect, onTestFinished, test } from "vitest";

import { firstPart, withoutIds } from "../../../test/answer-text.ts";
import { allDialects } from "../../../test/dialects.ts";
import { sharedSessions } from "../../../test/shared-sessions.ts";

const ada = "the-token-of-ada-000";
const bob = "the-token-of-bob-000";

/** A server with two tenants. `hasData`: the tenant `ada` has a session `s1` with a call that waits for an approval. */
async function world(hasData: boolean) {
  const database = new Database(":memory:");
  onTestFinished(() => void database.close());
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    needsApproval: true,
    handler: () => "paid",
  });
  const scripts = Array.from({ length: 40 }, () => [
    { type: "text", text: "The secret parcel." } as const,
    { type: "tool_call", id: "c1", name: "pay", arguments: {} } as const,
  ]);
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [pay] });
  const sessions = runtime({ host: sqliteStorage(database, { search: true }), engines: { default: agent } });
  const start = async (tenant: string, id: string) => {
    const turn = await sessions.tenant(tenant).start(`hi from ${tenant}`, { id, key: `start-${id}` });
    await turn.result;
    return turn.turnId ?? "";
  };
  // The tenant `bob` has a session of its own, so that its lists are not empty.
  await start("bob", "own");
  const turnId = hasData ? await start("ada", "s1") : null;
  const handler = createHandler({
    sessions,
    ...sharedSessions,
    auth: [
      { token: ada, tenant: "ada" },
      { token: bob, tenant: "bob" },
    ],
    inspect: { scenarios: [] },
    records: true,
    dialects: allDialects({ default: agent }),
  });
  const ask = async (token: string, method: string, path: string, body: unknown) => {
    const response = await handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    // A stream of an open turn ends with the turn. That of a session does not.
    const isEndless = path.endsWith("/events") && response.status === 200;
    const text = isEndless ? await firstPart(response) : await response.text();
    return {
      status: response.status,
      headers: withoutIds(JSON.stringify([...response.headers])),
      text: withoutIds(text),
    };
  };
  const stored = async () =>
    withoutIds(
      JSON.stringify([
        await sessions.tenant("ada").get("s1"),
        (await sessions.tenant("ada").list()).items,
        await sessions.tenant("ada").usage(null),
      ]),
    );
  return { handler, ask, turnId, stored };
}

const message = { id: "m1", role: "user" };

/** Bodies and queries that the routes accept, by method and path. */
const bodies: { readonly [route: string]: unknown } = {
  "POST /sessions": { id: "s1", input: "hi" },
  "POST /sessions/{id}/reply": { text: "hi" },
  "POST /sessions/{id}/send": { text: "hi" },
  "POST /sessions/{id}/tool-results": { results: [{ toolCallId: "c1", content: "x" }] },
  "POST /sessions/{id}/decisions": { toolCallId: "c1", digest: "x", type: "approve" },
  "POST /sessions/{id}/steer": { input: "hi" },
  "POST /ui/chat": { id: "s1", messages: [{ ...message, parts: [{ type: "text", text: "hi" }] }] },
  "POST /ui/chat/{id}/stop": {},
  "POST /ag-ui": { threadId: "s1", runId: "r1", messages: [{ ...message, content: "hi" }], tools: [], context: [] },
  "POST /complete": { token: "no-such-token", type: "approve" },
  "POST /v1/chat/completions": { model: "default", messages: [{ role: "user", content: "hi" }] },
};
const queries: { readonly [path: string]: string } = { "/search": "?q=secret", "/sessions": "?limit=200" };

/** Routes that create the session of the caller: later requests would find it. They are sent last. */
const creates = new Set(["POST /sessions", "POST /ui/chat", "POST /ag-ui"]);

test("every route answers as if the data of the other tenant did not exist, and leaves it unchanged", async () => {
  const [full, empty] = [await world(true), await world(false)];
  const { paths }: { readonly paths: { readonly [path: string]: { readonly [method: string]: object } } } = JSON.parse(
    await (await full.handler(new Request("http://localhost/openapi.json"))).text(),
  );
  const values: { readonly [name: string]: string } = {
    id: "s1",
    turnId: full.turnId ?? "",
    toolCallId: "c1",
    ordinal: "1",
    inputId: "start-s1",
    name: "hello",
    model: "default",
  };
  const routes = Object.entries(paths)
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })))
    .toSorted((one, other) => Number(creates.has(routeKey(one))) - Number(creates.has(routeKey(other))));
  expect(routes.length).toBeGreaterThan(35);
  const before = await full.stored();
  const addressed: string[] = [];
  for (const { method, path } of routes) {
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? "") + (queries[path] ?? "");
    const body = method === "POST" ? (bodies[routeKey({ method, path })] ?? {}) : undefined;
    const answers = await Promise.all([full, empty].map((server) => server.ask(bob, method, filled, body)));
    expect(answers[0], `${method} ${path}`).toEqual(answers[1]);
    if (path.includes("{id}")) {
      if (path === "/ui/chat/{id}" && method === "GET") expect(answers[0]?.text).toContain('"messages":[]');
      else expect(answers[0]?.status, `${method} ${path}`).toBeGreaterThanOrEqual(204);
      addressed.push(path);
    }
  }
  expect(await full.stored()).toBe(before);
  // These ids do reach the data of their own tenant.
  for (const path of new Set(addressed)) {
    if (paths[path]?.["get"] === undefined) continue;
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? "");
    expect((await full.ask(ada, "GET", filled, undefined)).status, path).toBeLessThan(300);
  }
  expect((await full.ask(ada, "GET", "/search?q=secret", undefined)).text).toContain("secret");
});

function routeKey({ method, path }: { readonly method: string; readonly path: string }): string {
  return `${method} ${path}`;
}
