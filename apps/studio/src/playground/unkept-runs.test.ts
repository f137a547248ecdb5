import { afterEach, expect, test, vi } from "vitest";

import { forgetRuns, parseRuns, rememberRun, unkeptRuns } from "./unkept-runs.ts";

afterEach(() => vi.unstubAllGlobals());

function withStorage(): void {
  const stored = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => stored.set(key, value),
  });
}

test("runs are remembered until they are kept or deleted", () => {
  withStorage();
  for (const id of ["a", "b", "c", "a"]) rememberRun(id);
  expect(unkeptRuns()).toEqual(["b", "c", "a"]);
  forgetRuns(["c", "unknown"]);
  expect(unkeptRuns()).toEqual(["b", "a"]);
});

test("keeps the newest 200", () => {
  withStorage();
  for (let index = 0; index < 205; index += 1) rememberRun(`run-${index}`);
  expect([unkeptRuns().length, unkeptRuns()[0]]).toEqual([200, "run-5"]);
});

test("a browser without storage remembers nothing, and a damaged list is empty", () => {
  rememberRun("a");
  expect(unkeptRuns()).toEqual([]);
  expect([parseRuns("{"), parseRuns('{"a":1}'), parseRuns('["a",1,null]')]).toEqual([[], [], ["a"]]);
});
