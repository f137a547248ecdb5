// The rows of the contract: what an operation may not declare by accident.

import type { AnyOperation } from "./internal.ts";

import { expect, test } from "vitest";

import {
  inspectionOperations,
  processOperations,
  recordOperations,
  sessionOperations,
  turnOperations,
} from "./internal.ts";

const operations: readonly (readonly [string, AnyOperation])[] = [
  sessionOperations,
  turnOperations,
  recordOperations,
  inspectionOperations,
  processOperations,
].flatMap((table) => Object.entries<AnyOperation>(table));

const named = (matches: (operation: AnyOperation) => boolean) =>
  operations.flatMap(([name, operation]) => (matches(operation) ? [name] : [])).toSorted();

test("operations that use no permit are these: the memory of all others is bounded", () => {
  expect(named(({ uses }) => uses === "nothing")).toEqual([
    "complete",
    "deleteSession",
    "forkSession",
    "getServer",
    "health",
    "listEngines",
    "recoverSession",
    "startScenario",
  ]);
});

test("operations without authentication are these", () => {
  expect(named(({ access }) => access === "open")).toEqual(["complete", "health"]);
});

test("requests that a client may not repeat are these", () => {
  expect(named(({ idempotent }) => idempotent === "never")).toEqual([
    "complete",
    "forkSession",
    "recoverSession",
    "startScenario",
  ]);
});

test("what starts or sends something in a session checks the engine of the caller", () => {
  const starting = named(({ uses, path }) => (uses === "turn" || uses === "input") && path.includes("{id}"));
  expect(named(({ drives }) => drives === true)).toEqual([...starting, "makeToken", "recoverSession"].toSorted());
});
