// The client and the routes are one list: what is served has a verb, or a reason not to.

import type { createHandler } from "../http/index.ts";
import type { TurnOptions as ServedOptions } from "../http/routes/turn-options.ts";
import type { DecisionInput } from "../session/internal.ts";
import type { EverturnClient, TurnOptions } from "./index.ts";
import type { DecisionAnswer } from "./types.ts";

import { expect, expectTypeOf, test } from "vitest";

import { fake } from "../adapters/internal.ts";
import { engine } from "../engine/internal.ts";
import { memoryStorage } from "../host/memory/index.ts";
import { createHandler as handlerOf } from "../http/index.ts";
import { runtime } from "../runtime/internal.ts";
import { createClient } from "./index.ts";

/** Which verb asks for which route. */
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
  watchSession: "events",
  watchTurn: "events",
  getTurn: "attach",
  exportTurn: "export",
  makeToken: "token",
  complete: "complete",
  health: "health",
};

/** Routes that other clients speak, in their own way. */
const without: { readonly [operation: string]: string } = {
  openapi: "a description for tools that make clients",
  postUiChat: "the AI SDK's useChat brings its own client",
  resumeUiChat: "the AI SDK's useChat brings its own client",
  loadUiChat: "the AI SDK's useChat brings its own client",
  createChatCompletion: "clients of OpenAI's API speak it",
  listModels: "clients of OpenAI's API speak it",
  getModel: "clients of OpenAI's API speak it",
};

const agent = engine({ adapter: fake(), model: "fake:m" });
const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
const handler: ReturnType<typeof createHandler> = handlerOf({
  sessions,
  auth: "none",
  openai: { small: agent },
  records: true,
});

type Described = {
  readonly paths: { readonly [path: string]: { readonly [method: string]: { readonly operationId: string } } };
};

test("every route has a verb, or is somebody else's", async () => {
  const description: Described = JSON.parse(await (await handler(new Request("http://localhost/openapi.json"))).text());
  const operations = Object.values(description.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  );
  expect(operations.length).toBeGreaterThan(20);
  expect(operations.filter((operation) => !(operation in verbs) && !(operation in without))).toEqual([]);
  const gone = [...Object.keys(verbs), ...Object.keys(without)].filter((operation) => !operations.includes(operation));
  // It does not describe itself.
  expect(gone).toEqual(["openapi"]);
});

test("every verb asks for a route", () => {
  const asked = new Set<string>(Object.values(verbs));
  expect(Object.keys(createClient({ url: "http://localhost" })).filter((verb) => !asked.has(verb))).toEqual([]);
});

test("what may be said of a turn is what is served", () => {
  expectTypeOf<keyof TurnOptions>().toEqualTypeOf<keyof ServedOptions>();
  expectTypeOf<TurnOptions>().toExtend<ServedOptions>();
  expectTypeOf<DecisionAnswer>().toExtend<DecisionInput>();
});
