// The client covers the routes of the handler: every route has a verb, or a reason why it has none.

import type { DecisionInput } from "../../core/session/internal.ts";
import type { createHandler } from "../index.ts";
import type { EverturnClient, Inspector } from "./index.ts";
import type { DecisionAnswer } from "./types.ts";

import { expect, expectTypeOf, test } from "vitest";

import { allDialects } from "../../../test/dialects.ts";
import { fake } from "../../core/adapters/internal.ts";
import { engine } from "../../core/engine/internal.ts";
import { memoryStorage } from "../../durable/host/memory/memory.ts";
import { runtime } from "../../durable/internal.ts";
import { createHandler as handlerOf } from "../index.ts";
import { createClient } from "./index.ts";

/** The verb for each operation. */
const verbs: { readonly [operation: string]: keyof EverturnClient } = {
  startSession: "start",
  reply: "reply",
  send: "send",
  continueSession: "continue",
  step: "step",
  submitToolResults: "submitToolResults",
  decide: "decide",
  cancel: "cancel",
  steer: "steer",
  withdraw: "withdraw",
  getSession: "get",
  listMessages: "messages",
  listSessions: "list",
  deleteSession: "delete",
  forkSession: "fork",
  recoverSession: "recover",
  getUsage: "usage",
  getUsageWithoutSession: "usage",
  loadUiChat: "chat",
  watchSession: "events",
  watchTurn: "events",
  getTurn: "attach",
  exportTurn: "export",
  makeToken: "token",
  complete: "complete",
  health: "health",
};

/** The function of `createInspector` for each inspection route. */
const inspectorFunctions: { readonly [operation: string]: keyof Inspector } = {
  getServer: "server",
  listEngines: "engines",
  getOverview: "overview",
  listTurns: "turns",
  searchMessages: "search",
  getTimeline: "timeline",
  getEffect: "effect",
  getRequest: "request",
  listWorkers: "workers",
  listTenants: "tenants",
  startScenario: "startScenario",
};

/** Operations without a verb, and why. */
const withoutVerb: { readonly [operation: string]: string } = {
  openapi: "a description for client generators",
  listKeys: "for tools of operators",
  createKey: "for tools of operators",
  rotateKey: "for tools of operators",
  revokeKey: "for tools of operators",
  listAudit: "for tools of operators",
  deleteSessions: "for tools of operators",
  runAgUi: "for clients of AG-UI",
  postUiChat: "for the AI SDK's own client",
  resumeUiChat: "for the AI SDK's own client",
  stopUiChat: "for the AI SDK's own client, by chatTransport",
  createChatCompletion: "for clients of OpenAI's API",
  listModels: "for clients of OpenAI's API",
  getModel: "for clients of OpenAI's API",
};

const agent = engine({ adapter: fake(), model: "fake:m" });
const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
const handler: ReturnType<typeof createHandler> = handlerOf({
  sessions,
  auth: "none",
  dialects: allDialects({ small: agent }),
  records: true,
  inspect: true,
  admin: true,
});

type OpenApiDocument = {
  readonly paths: { readonly [path: string]: { readonly [method: string]: { readonly operationId: string } } };
};

test("every route has a verb of the client or belongs to another client", async () => {
  const description: OpenApiDocument = JSON.parse(
    await (await handler(new Request("http://localhost/openapi.json"))).text(),
  );
  const operations = Object.values(description.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  );
  expect(operations.length).toBeGreaterThan(20);
  const covered = [verbs, inspectorFunctions, withoutVerb].flatMap((table) => Object.keys(table));
  expect(operations.filter((operation) => !covered.includes(operation))).toEqual([]);
  const gone = covered.filter((operation) => !operations.includes(operation));
  // The OpenAPI document does not list its own route.
  expect(gone).toEqual(["openapi"]);
});

test("every verb uses a route", () => {
  const asked = new Set<string>(Object.values(verbs));
  expect(Object.keys(createClient({ url: "http://localhost" })).filter((verb) => !asked.has(verb))).toEqual([]);
});

test("the decisions of the client are those of the runtime", () => {
  expectTypeOf<DecisionAnswer>().toExtend<DecisionInput>();
});
