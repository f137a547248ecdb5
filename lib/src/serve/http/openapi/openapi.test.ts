// The served OpenAPI document, checked against the responses of every operation.

import type { FakeScript, JsonObject } from "everturn";

import { Validator } from "@cfworker/json-schema";
import { Validator as OpenapiValidator } from "@seriousme/openapi-schema-validator";
import { askUser, engine, fake, tool } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { allDialects } from "../../../../test/dialects.ts";

type Operation = {
  readonly operationId: string;
  readonly security?: readonly unknown[];
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly schema: JsonObject } } };
  readonly responses: {
    readonly [status: string]: { readonly content?: { readonly [type: string]: { readonly schema: JsonObject } } };
  };
};
type Description = {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly components: { readonly schemas: JsonObject };
};

const calls = (name: string, id: string) => [{ type: "tool_call", id, name, arguments: {} } as const];
const say = (text: string) => [{ type: "text", text } as const];

const schema = { type: "object" };
const tools = [
  tool({ name: "pay", description: "Pays.", schema, needsApproval: true, handler: () => "paid" }),
  tool({ name: "ask", description: "Asks.", schema, handler: () => askUser("Which?") }),
  tool({ name: "lookup", description: "Others look.", schema, manual: true }),
];

function serve(...scripts: readonly FakeScript[]) {
  const contextPolicy = { window: 100_000 };
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools, contextPolicy });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const scenario = { name: "hello", title: "Hello", description: "Says hello." };
  const scenarios = [{ ...scenario, start: async () => ({ sessionId: "s9" }) }];
  return createHandler({
    sessions,
    auth: "none",
    dialects: allDialects({ agent }),
    records: true,
    inspect: { scenarios },
  });
}

async function describe(handler: (request: Request) => Promise<Response>): Promise<Description> {
  return JSON.parse(await (await handler(new Request("http://localhost/openapi.json"))).text());
}

test("the document conforms to the OpenAPI specification", async () => {
  const description = await describe(serve());
  const { valid, errors } = await new OpenapiValidator().validate(structuredClone(description));
  expect(errors).toBeUndefined();
  expect(valid).toBe(true);
});

test("operation ids are unique, and every path is served", async () => {
  const handler = serve();
  const description = await describe(handler);
  const names: string[] = [];
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, { operationId }] of Object.entries(methods)) {
      names.push(operationId);
      const url = `http://localhost${path.replaceAll(/\{\w+\}/g, "x")}`;
      const answer = await handler(new Request(url, { method: method.toUpperCase() }));
      const { error } = JSON.parse((await answer.text()) || "{}");
      expect([path, method, error?.reason]).not.toEqual([
        path,
        method,
        expect.stringMatching(/no_such_route|method_not_allowed/),
      ]);
    }
  }
  expect(new Set(names).size).toBe(names.length);
});

test("the responses of every operation conform to their schemas", async () => {
  const handler = serve(
    say("One."),
    calls("pay", "c1"),
    say("Two."),
    calls("lookup", "c2"),
    say("Three."),
    calls("pay", "c3"),
    say("Four."),
    calls("ask", "c4"),
    say("Five."),
    say("Six."),
    say("Seven."),
    say("Eight."),
    say("Nine."),
    say("Ten."),
    say("Eleven."),
  );
  const description = await describe(handler);
  const seen = new Set<string>();

  /** Sends a request and checks the response against the document. */
  const ask = async (
    operation: string,
    path: string,
    body?: unknown,
    headers: { readonly [name: string]: string } = {},
  ) => {
    const [template, method, described] = find(description, operation);
    seen.add(operation);
    expect(path).toMatch(new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}(\\?|$)`));
    if (body !== undefined && described.requestBody !== undefined) {
      const sent = described.requestBody.content["application/json"].schema;
      expect(problems(description, sent, body)).toEqual([]);
    }
    const answer = await handler(
      new Request(`http://localhost${path}`, {
        method: method.toUpperCase(),
        headers: { "content-type": "application/json", prefer: "wait=10", ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    const text = await answer.text();
    const promised = described.responses[answer.status] ?? described.responses["default"];
    expect([operation, answer.status, promised !== undefined]).toEqual([operation, answer.status, true]);
    const [type = ""] = (answer.headers.get("content-type") ?? "").split(";");
    if (text === "") return {};
    const content = promised?.content?.[type];
    expect([operation, answer.status, type, content !== undefined]).toEqual([operation, answer.status, type, true]);
    if (type === "text/event-stream") {
      for (const frame of text.split("\n\n").filter((one) => one !== "" && !/event: end|\[DONE\]/.test(one))) {
        const data = JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? "null");
        expect(problems(description, content?.schema ?? {}, data)).toEqual([]);
      }
      return {};
    }
    const json = JSON.parse(text);
    expect([operation, answer.status, problems(description, content?.schema ?? {}, json)]).toEqual([
      operation,
      answer.status,
      [],
    ]);
    return json;
  };

  await ask("health", "/health");
  await ask("startSession", "/sessions", { input: "hi", id: "s1" });
  await ask("reply", "/sessions/s1/reply", { text: "pay" });
  const waiting = await ask("getSession", "/sessions/s1");
  const { digest } = waiting.session.pendingToolCalls[0];
  await ask("decide", "/sessions/s1/decisions", { toolCallId: "c1", digest, type: "approve" });
  const { turnId } = await ask("reply", "/sessions/s1/reply", { text: "look" }, { accept: "application/json" });
  await ask("submitToolResults", "/sessions/s1/tool-results", { results: [{ toolCallId: "c2", content: [1, null] }] });
  await ask("continueSession", "/sessions/s1/continue", {});
  await ask("reply", "/sessions/s1/reply", { text: "pay again" });
  const { token } = await ask("makeToken", "/sessions/s1/calls/c3/token");
  await ask("complete", "/complete", { token, type: "deny", reason: "no" });
  await ask("complete", "/complete", { token, type: "deny", reason: "no" });
  await ask("watchSession", "/sessions/s1/events?follow=false");
  await ask("getTurn", `/sessions/s1/turns/${turnId}`);
  await ask("watchTurn", `/sessions/s1/turns/${turnId}/events`);
  await ask("exportTurn", `/sessions/s1/turns/${turnId}/record`);
  await ask("listSessions", "/sessions?limit=1");
  await ask("getSession", "/sessions/s1");
  await ask("getSession", "/sessions/none");
  await ask("listMessages", "/sessions/s1/messages");
  await ask("getUsage", "/sessions/s1/usage");
  await ask("getUsageWithoutSession", "/usage");
  await ask("getServer", "/server");
  await ask("listEngines", "/engines");
  await ask("getOverview", "/overview");
  await ask("listTurns", "/sessions/s1/turns?limit=2");
  // The storage in memory cannot search.
  await ask("searchMessages", "/search?q=hi");
  await ask("getTimeline", `/sessions/s1/turns/${turnId}/timeline?after=1&limit=2`);
  await ask("getEffect", `/sessions/s1/turns/${turnId}/effects/1`);
  await ask("getRequest", `/sessions/s1/turns/${turnId}/effects/1/request`);
  await ask("listWorkers", "/workers");
  await ask("startScenario", "/scenarios/hello", {});
  await ask("cancel", "/sessions/s1/cancel", {});
  await ask("startSession", "/sessions", { input: "hi", id: "s2" }, { accept: "text/event-stream" });
  await ask("send", "/sessions/s2/send", { text: "go on" });
  await ask("step", "/sessions/s2/step", {});
  const { inputId } = await ask("steer", "/sessions/s2/steer", { input: "and this" });
  await ask("withdraw", `/sessions/s2/inputs/${inputId}`);
  await ask("forkSession", "/sessions/s2/fork", { at: 1 });
  await ask("recoverSession", "/sessions/s2/recover", {});
  await ask("compact", "/sessions/s2/compact", { instructions: "Keep names." });
  await ask("undoCompaction", "/sessions/s2/undo-compaction", {});
  await ask("listFrames", "/sessions/s2/frames");
  await ask("deleteSession", "/sessions/s2");

  const asked = { id: "u1", parts: [{ type: "text", text: "hi" }], role: "user" };
  await ask("postUiChat", "/ui/chat", { id: "s3", messages: [asked], trigger: "submit-message" });
  await ask("resumeUiChat", "/ui/chat/s3/stream");
  await ask("loadUiChat", "/ui/chat/s3");
  await ask("stopUiChat", "/ui/chat/s3/stop", {});
  const run = { threadId: "s4", runId: "r1", messages: [{ id: "u1", role: "user", content: "hi" }] };
  await ask("runAgUi", "/ag-ui", run);
  const completion = { model: "agent", messages: [{ role: "user", content: "hi" }] };
  await ask("createChatCompletion", "/v1/chat/completions", completion);
  await ask("createChatCompletion", "/v1/chat/completions", { ...completion, stream: true });
  await ask("createChatCompletion", "/v1/chat/completions", { ...completion, model: "other" });
  await ask("listModels", "/v1/models");
  await ask("getModel", "/v1/models/agent");
  await ask("getModel", "/v1/models/other");

  const all = Object.values(description.paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId }) => operationId),
  );
  expect([...seen].toSorted()).toEqual(all.toSorted());
});

test("operations without security are answered without a key", async () => {
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: fake(), model: "fake:m" }) },
  });
  const handler = createHandler({ sessions, auth: [{ token: "a-secret-bearer-token" }] });
  const { paths } = await describe(handler);
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { security }] of Object.entries(methods)) {
      const url = `http://localhost${path.replaceAll(/\{\w+\}/g, "x")}`;
      const { status } = await handler(new Request(url, { method: method.toUpperCase() }));
      expect([path, method, status === 401]).toEqual([path, method, security?.length !== 0]);
    }
  }
});

test("the document names the mount path", async () => {
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: fake(), model: "fake:m" }) },
  });
  const handler = createHandler({ sessions, auth: "none", basePath: "/api/everturn" });
  const answer = await handler(new Request("http://localhost/api/everturn/openapi.json"));
  expect(JSON.parse(await answer.text()).servers).toEqual([{ url: "/api/everturn" }]);
});

test("the document omits options that are not allowed", async () => {
  const agent = engine({ adapter: fake({ scripts: [] }), model: "fake:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const reply = "/sessions/{id}/reply";
  const closed = JSON.stringify((await describe(createHandler({ sessions, auth: "none" }))).paths[reply]);
  const open = JSON.stringify(
    (await describe(createHandler({ sessions, auth: "none", allow: ["instructions"] }))).paths[reply],
  );
  expect([closed.includes('"instructions"'), open.includes('"instructions"')]).toEqual([false, true]);
});

function find(
  description: Description,
  operation: string,
): readonly [path: string, method: string, described: Operation] {
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, described] of Object.entries(methods)) {
      if (described.operationId === operation) return [path, method, described];
    }
  }
  throw new Error(`there is no operation ${operation}`);
}

/** The validation errors of a value against a schema of the document. */
function problems({ components }: Description, schema: JsonObject, value: unknown): readonly string[] {
  const validator = new Validator({ ...schema, components }, "2020-12", false);
  return validator.validate(value).errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
}
