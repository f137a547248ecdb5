// Operations that call a verb of the runtime: what the compiler demands.

import type { Implementations } from "./operation-route.ts";

import { expectTypeOf, test } from "vitest";

import { get, json, nothing, remove } from "../../contract/operation.ts";
import { pageQuery } from "../../contract/session-operations.ts";

const answers = nothing({ 204: "It is deleted." });
const operations = {
  delete: remove("/sessions/{id}", { route: "verb", scope: "write", summary: "Deletes.", answers }),
};

test("an operation that calls a verb needs no implementation", () => {
  expectTypeOf<keyof Implementations<typeof operations>>().toEqualTypeOf<never>();
});

test("an operation needs one if it does not say so, or if its verb takes or returns something else", () => {
  const others = {
    recover: remove("/sessions/{id}", { scope: "write", summary: "Deletes.", answers }),
    withdraw: remove("/sessions/{id}", { route: "verb", scope: "write", summary: "Has too few ids.", answers }),
    get: get("/sessions/{id}", {
      route: "verb",
      scope: "read",
      summary: "Answers for a session that does not exist, too.",
      answers: json("SessionView", { 200: "The session." }),
    }),
    nothing: remove("/sessions/{id}", { route: "verb", scope: "write", summary: "Is no verb.", answers }),
  };
  expectTypeOf<keyof Implementations<typeof others>>().toEqualTypeOf<keyof typeof others>();
});

test("a page needs an implementation, which bounds it", () => {
  const pages = {
    messages: get("/sessions/{id}/messages", {
      route: "verb",
      scope: "read",
      summary: "Lists messages.",
      query: pageQuery,
      answers: json("MessagePage", { 200: "A page." }),
    }),
  };
  expectTypeOf<keyof Implementations<typeof pages>>().toEqualTypeOf<"messages">();
});
