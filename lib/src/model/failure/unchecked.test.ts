import { expect, test } from "vitest";

import { adapterErrorReasons, runtimeErrorReasons, toolErrorReasons } from "./failure.ts";
import { adapterFailure, runtimeFailure, toolFailure } from "./failures.ts";
import { adapterFailureOf, runtimeFailureOf, toolFailureOf } from "./unchecked.ts";

test.each(runtimeErrorReasons)("a runtime failure %s is the one that the checking constructor builds", (reason) => {
  expect(runtimeFailureOf(reason, "why")).toEqual(runtimeFailure(reason, { message: "why" }));
});

test.each(adapterErrorReasons)("an adapter failure %s is the one that the checking constructor builds", (reason) => {
  expect(adapterFailureOf(reason, "why")).toEqual(adapterFailure(reason, { message: "why" }));
  expect(adapterFailureOf(reason, "why", "c")).toEqual(adapterFailure(reason, { message: "why", code: "c" }));
});

test.each(toolErrorReasons)("a tool failure %s is the one that the checking constructor builds", (reason) => {
  const call = { id: "call_1", name: "clock", arguments: {}, rawArguments: null, provider: null, metadata: {} };
  const details = { message: "why", toolName: "clock", toolCallId: "call_1" };

  expect(toolFailureOf(reason, "why", call)).toEqual(toolFailure(reason, details));
});
