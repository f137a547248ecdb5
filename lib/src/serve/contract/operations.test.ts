// The rows of the contract: what an operation may not declare by accident.

import type { Operation } from "./internal.ts";

import { expect, test } from "vitest";

import {
  adminOperations,
  inspectionOperations,
  processOperations,
  recordOperations,
  sessionOperations,
  turnOperations,
} from "./internal.ts";

const operations: readonly (readonly [string, Operation])[] = [
  sessionOperations,
  turnOperations,
  recordOperations,
  inspectionOperations,
  adminOperations,
  processOperations,
].flatMap((table) =>
  Object.entries<Operation>(table).map(([name, operation]) => [operation.operationId ?? name, operation]),
);

const named = (matches: (operation: Operation) => boolean) =>
  operations.flatMap(([name, operation]) => (matches(operation) ? [name] : [])).toSorted();

test("operations that use no permit are these: the memory of all others is bounded", () => {
  expect(named(({ uses }) => uses === "nothing")).toEqual([
    "compact",
    "complete",
    "createKey",
    "deleteSession",
    "forkSession",
    "getServer",
    "health",
    "listEngines",
    "recoverSession",
    "revokeKey",
    "rotateKey",
    "startScenario",
    "undoCompaction",
  ]);
});

test("operations without authentication are these", () => {
  expect(named(({ scope }) => scope === "open")).toEqual(["complete", "health"]);
});

test("requests that a client may not repeat are these", () => {
  expect(named(({ idempotent }) => idempotent === "never")).toEqual([
    "compact",
    "complete",
    "createKey",
    "forkSession",
    "recoverSession",
    "rotateKey",
    "startScenario",
    "undoCompaction",
  ]);
});

test("the scope of an operation follows from what it does", () => {
  expect(named(({ scope }) => scope === "decide")).toEqual(["decide"]);
  expect(named(({ scope }) => scope === "answer")).toEqual(["makeToken", "submitToolResults"]);
  const reading = named(({ scope }) => scope === "read");
  expect(reading).toEqual(named(({ method, scope }) => method === "GET" && scope !== "open" && scope !== "admin"));
});

test("operations that concern other callers or the process are these", () => {
  expect(named(({ operator, scope }) => operator === true && scope !== "admin")).toEqual([
    "getOverview",
    "getUsageWithoutSession",
    "listWorkers",
    "startScenario",
  ]);
  expect(named(({ scope }) => scope === "admin")).toEqual([
    "createKey",
    "deleteSessions",
    "listAudit",
    "listKeys",
    "listTenants",
    "revokeKey",
    "rotateKey",
  ]);
  expect(named(({ scope, operator }) => scope === "admin" && operator !== true)).toEqual([]);
});
