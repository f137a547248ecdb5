// Directives of tools: what they contain is stored, so values that cannot be stored are refused where they are passed.

import { askAndResume, askUser, fail, failTurn, finish, halt, handoff, user } from "everturn";
import { expect, test } from "vitest";

/** An argument of a caller without static types. */
const untyped = (value: unknown) => value as never;

const cyclic: { self?: unknown } = {};
cyclic.self = cyclic;
const notJson: readonly (readonly [string, unknown])[] = [
  ["a function", () => 1],
  ["a symbol", Symbol("x")],
  ["a bigint", 1n],
  ["NaN", Number.NaN],
  ["a Date", new Date(0)],
  ["a Map", new Map()],
  ["a cycle", cyclic],
];

test.each(notJson)("askUser refuses an option that is %s", (_, value) => {
  for (const [opts, path] of [
    [{ choices: value }, ["choices"]],
    [{ choices: [value] }, ["choices", 0]],
  ] as const) {
    const misuse = { name: "MisuseError", reason: "invalid_argument", message: expect.stringMatching(/^askUser: /) };
    expect(() => askUser("Which?", untyped(opts))).toThrow(expect.objectContaining(misuse));
    expect(() => askUser("Which?", untyped(opts))).toThrow(
      expect.objectContaining({ path: expect.arrayContaining([...path]) }),
    );
    expect(() => askAndResume("Which?", untyped({ opts }))).toThrow(expect.objectContaining({ name: "MisuseError" }));
  }
});

test.each(notJson.filter(([what]) => what !== "a Date"))(
  "finish refuses a value that is or contains %s",
  (_, value) => {
    for (const wrong of [value, { deep: [value] }]) {
      expect(() => finish(untyped(wrong))).toThrow(
        expect.objectContaining({ name: "MisuseError", message: expect.stringMatching(/^finish: /) }),
      );
    }
  },
);

test("askUser refuses options that are no object, look like a credential, or have an unknown form of the answer", () => {
  for (const opts of [null, "x", 5, ["a"], { apiKey: "sk-secret-1234567890" }, { answerAs: "letter" }]) {
    const misuse = expect.objectContaining({ name: "MisuseError", message: expect.stringMatching(/^askUser: /) });
    expect(() => askUser("Which?", untyped(opts)), JSON.stringify(opts)).toThrow(misuse);
  }
  expect(() => askUser("Which?", { apiKey: "sk-secret-1234567890" })).not.toThrow(/sk-secret/);
});

test("texts and messages of directives are checked", () => {
  const wrong: readonly (() => unknown)[] = [
    () => askUser(untyped(5)),
    () => askAndResume(untyped(null)),
    () => askAndResume("Which?", untyped(null)),
    () => halt(untyped(5)),
    () => fail(untyped(5)),
    () => failTurn(untyped(undefined)),
    () => handoff(untyped(5), "task"),
    () => handoff("billing", untyped(null)),
    () => handoff("billing", "task", untyped("hi")),
    () => handoff("billing", "task", untyped([{ role: "user", content: 5 }])),
  ];
  for (const make of wrong) expect(make, String(make)).toThrow(expect.objectContaining({ name: "MisuseError" }));
});

test("values that can be stored are kept as they are", () => {
  const opts = { choices: ["a", { id: 1, hint: null }], timeoutMs: 5 };
  expect(askUser("Which?", { ...opts, answerAs: "tool_result", placeholder: undefined })).toMatchObject({
    question: "Which?",
    answerAs: "tool_result",
    opts,
  });
  expect(finish({ ok: true, items: [1, null] })).toMatchObject({ control: { value: { ok: true, items: [1, null] } } });
  const dated = finish(untyped({ at: new Date(0), note: undefined }));
  expect(dated).toMatchObject({ control: { value: { at: "1970-01-01T00:00:00.000Z" } } });
  expect(handoff("billing", "refund", [user("hi")])).toMatchObject({ control: { initialMessages: [user("hi")] } });
});
