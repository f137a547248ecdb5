// The client covers the routes of the handler: every route has a verb, or a reason why it has none.

import type { Withdrawn } from "../../core/model/internal.ts";
import type { DecisionInput } from "../../core/session/internal.ts";
import type { CallOptions, OperationTable } from "../contract/internal.ts";
import type { createHandler } from "../index.ts";
import type { EverturnClient, Inspector } from "./index.ts";
import type { DecisionAnswer } from "./types.ts";

import { expect, expectTypeOf, test } from "vitest";

import { allDialects } from "../../../test/dialects.ts";
import { fake } from "../../core/adapters/internal.ts";
import { engine } from "../../core/engine/internal.ts";
import { memoryStorage } from "../../durable/host/memory/memory.ts";
import { runtime } from "../../durable/internal.ts";
import {
  adminOperations,
  inspectionOperations,
  processOperations,
  recordOperations,
  sessionOperations,
  turnOperations,
} from "../contract/internal.ts";
import { createHandler as handlerOf } from "../index.ts";
import { createClient, createInspector } from "./index.ts";

/** The operations whose names are not those of their verbs. */
const verbs: { readonly [operation: string]: keyof EverturnClient } = {
  getUsageWithoutSession: "usage",
  watchTurn: "events",
  loadUiChat: "chat",
};

/** The verbs by the operations of the tables that a client serves. The name of a row is that of its verb. */
function verbsOfTables(...tables: readonly OperationTable[]): { readonly [operation: string]: string } {
  const rows = tables.flatMap((table) => Object.entries(table));
  return Object.fromEntries(rows.map(([name, { operationId = name }]) => [operationId, verbs[name] ?? name]));
}

/** Operations without a verb, and why. */
const withoutVerb: { readonly [operation: string]: string } = {
  openapi: "a description for client generators",
  listKeys: "for tools of operators",
  createKey: "for tools of operators",
  rotateKey: "for tools of operators",
  revokeKey: "for tools of operators",
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
  const options = { url: "http://localhost" };
  const served = [
    {
      client: createClient(options),
      tables: { ...verbs, ...verbsOfTables(sessionOperations, turnOperations, recordOperations, processOperations) },
    },
    {
      client: createInspector(options),
      tables: verbsOfTables(inspectionOperations, recordOperations, adminOperations),
    },
  ];
  const unserved = served.flatMap(({ client, tables }) => {
    expect(Object.keys(client).filter((verb) => !Object.values(tables).includes(verb))).toEqual([]);
    return Object.entries(tables).flatMap(([operation, verb]) => (verb in client ? [] : [operation]));
  });
  expect(unserved.toSorted()).toEqual(["createKey", "deleteSessions", "listKeys", "revokeKey", "rotateKey"]);
  const known = [...served.flatMap(({ tables }) => Object.keys(tables)), ...Object.keys(withoutVerb)];
  expect(operations.filter((operation) => !known.includes(operation))).toEqual([]);
  // The OpenAPI document does not list its own route.
  expect(Object.keys(withoutVerb).filter((operation) => !operations.includes(operation))).toEqual(["openapi"]);
});

test("the verbs that follow from rows have the types of their requests and results", () => {
  expectTypeOf<EverturnClient["withdraw"]>().toEqualTypeOf<
    (id: string, inputId: string, options?: CallOptions) => Promise<Withdrawn>
  >();
  expectTypeOf<EverturnClient["fork"]>().toEqualTypeOf<
    (
      id: string,
      options?: CallOptions & { readonly id?: string; readonly at?: number; readonly redo?: string },
    ) => Promise<string>
  >();
  expectTypeOf<Parameters<Inspector["effect"]>>().toEqualTypeOf<
    [id: string, turnId: string, ordinal: number, options?: CallOptions]
  >();
});

test("the decisions of the client are those of the runtime", () => {
  expectTypeOf<DecisionAnswer>().toExtend<DecisionInput>();
});
