// Protocols and projectors of one's own, in memory: `chat`, `stream`, `step`, `generate`, and what an engine rejects.

import type { CodeExecutor, OwnProtocol, NamedProjector, NamedProtocol, ProtocolDriver } from "everturn/advanced";

import {
  chat,
  engine,
  fake,
  generate,
  MisuseError,
  step,
  stream,
  tool,
  user,
  newSession,
  session as sessions,
} from "everturn";
import {
  describeEngine,
  restoreEngine,
  ChatContextProjector,
  chatProtocol,
  ending,
  replyMessage,
  replyStepEnd,
} from "everturn/advanced";
import { describe, expect, test } from "vitest";

type Guessing = {
  readonly event: { readonly guess: string };
  readonly termination: { readonly word: string; readonly tries: number };
  readonly driverState: { readonly tries: number };
};

const base = chatProtocol<Guessing>();

/**
 * The model guesses a word. A wrong guess is recorded and corrected; the right one is the value of the run. Tool calls
 * are those of the chat protocol.
 */
const driver: ProtocolDriver<Guessing> = {
  ...base,
  prepareProtocolIteration(context) {
    const driverState = { tries: context.events().length };
    return [{ type: "start_llm", useTools: true, overrides: {}, driverState }];
  },
  handleLlmSuccess(context, modelReply, state) {
    if (modelReply.toolCalls.length > 0) return base.handleLlmSuccess(context, modelReply, state);
    const guess = modelReply.outputText ?? "";
    const tries = (state?.tries ?? 0) + 1;
    const { word, tries: most } = context.termination;
    const name = (part: string) => `${context.turnId}/${context.protocolIteration}/${part}`;
    const corrected = { ...user(`Not ${guess}.`), id: name("no") };
    const messages = [replyMessage(modelReply, name("reply")), ...(guess === word ? [] : [corrected])];
    const events = guess === word ? [] : [{ guess }];
    const record = { type: "append_events", messages, events } as const;
    const endStep = { type: "end_step", ...replyStepEnd(modelReply) } as const;
    if (guess === word)
      return [record, endStep, { type: "finish", ending: ending({ type: "final_value", value: { word, tries } }) }];
    if (tries >= most) return [record, endStep, { type: "finish", ending: ending({ type: "empty" }) }];
    return [
      record,
      endStep,
      { type: "advance_protocol_iteration", free: false },
      { type: "start_checkpoint", checkpoint: "after_work", onEmpty: { type: "prepare_iteration" } },
    ];
  },
};

const guessing: NamedProtocol<Guessing> = {
  name: "guess",
  version: 1,
  termination: { word: "rain", tries: 5 },
  ...driver,
};

/** The request with the number of guesses in the instructions. */
const counted: NamedProjector<Guessing> = {
  name: "counted",
  version: 1,
  project(context) {
    const request = ChatContextProjector.project(context);
    return { ...request, messages: [...request.messages, user(`Guesses so far: ${context.turn.events.length}.`)] };
  },
};

/** An adapter that says these texts in order. */
function guesses(...texts: readonly string[]) {
  return fake({ scripts: texts.map((text) => [{ type: "text", text }]) });
}

function lastTexts(adapter: ReturnType<typeof guesses>) {
  return adapter.calls.map(({ request }) => request.messages.at(-1)?.content);
}

function sessionOf(text: string) {
  return newSession({ thread: { messages: [user(text)] } });
}

const recordOf = (guess: string) => ({ protocol: "guess", event: { guess } });

test("chat runs a protocol and a projector of one's own", async () => {
  const adapter = guesses("snow", "fog", "rain");
  const agent = engine({ adapter, model: "fake:m", protocol: guessing, projector: counted });
  const result = await chat(agent, "Guess my word.");
  expect(result.outcome).toEqual({ type: "final_value", value: { word: "rain", tries: 3 } });
  expect(result.protocolEvents).toEqual([recordOf("snow"), recordOf("fog")]);
  expect(result.steps).toHaveLength(3);
  expect(lastTexts(adapter)).toEqual(["Guesses so far: 0.", "Guesses so far: 1.", "Guesses so far: 2."]);
});

test("a stream has the same result", async () => {
  const agent = engine({ adapter: guesses("snow", "rain"), model: "fake:m", protocol: guessing, projector: counted });
  const types: string[] = [];
  const events = stream(agent, "Guess my word.");
  for await (const { type } of events) types.push(type);
  const result = await events.result;
  expect(result.protocolEvents).toEqual([recordOf("snow")]);
  expect(types.filter((type) => type === "step_completed")).toHaveLength(2);
});

test("a class can be a protocol", async () => {
  class Once implements ProtocolDriver {
    readonly name = "once";
    readonly version = 1;
    readonly termination = null;
    readonly #outcome = { type: "final_value", value: "done" } as const;
    prepareProtocolIteration() {
      return [{ type: "finish", ending: ending(this.#outcome) }] as const;
    }
    handleLlmSuccess() {
      return [];
    }
    handleToolResults() {
      return [];
    }
    handleExecResult() {
      return [];
    }
  }
  const result = await chat(engine({ adapter: guesses(), protocol: new Once() }), "Begin.");
  expect(result.outcome).toEqual({ type: "final_value", value: "done" });
});

test("a protocol with an executor runs code", async () => {
  const protocol: OwnProtocol = {
    ...chatProtocol(),
    name: "runs-code",
    version: 1,
    termination: null,
    executor: {
      name: "upper",
      version: "1",
      language: "text",
      run: async ({ code }) => ({ type: "finished", observations: [code.toUpperCase()], error: null, finish: null }),
    },
    prepareProtocolIteration: () => [{ type: "start_exec", language: "text", code: "hello", driverState: { cell: 7 } }],
    handleExecResult: (_, result, calls, driverState) => {
      const observations = result.type === "code_finished" ? result.observations : [result.message];
      const value = { observations, calls: calls.length, driverState };
      return [{ type: "finish", ending: ending({ type: "final_value", value }) }];
    },
  };
  const result = await chat(engine({ adapter: guesses(), model: "fake:m", protocol }), "Begin.");
  const value = { observations: ["HELLO"], calls: 0, driverState: { cell: 7 } };
  expect(result.outcome).toEqual({ type: "final_value", value });
});

test("a protocol can inherit its executor and the settings of its cells", async () => {
  const seen: unknown[] = [];
  class Base {
    get executor(): CodeExecutor {
      return {
        name: "seven",
        version: "1",
        language: "text",
        run: async ({ limits }) => {
          seen.push(limits.output);
          return { type: "finished", observations: [], error: null, finish: { type: "value", value: "seven" } };
        },
      };
    }
    get limits() {
      return { output: 1234 };
    }
    get finish() {
      return { type: "number" } as const;
    }
  }
  class Cells extends Base {
    readonly name = "cells";
    readonly version = 1;
    readonly termination = null;
    readonly handleLlmSuccess = () => [];
    readonly handleToolResults = () => [];
    readonly prepareProtocolIteration = () =>
      [{ type: "start_exec", language: "text", code: "7", driverState: null }] as const;
    readonly handleExecResult: ProtocolDriver["handleExecResult"] = (_, result) => {
      const value =
        result.type === "code_finished" && result.finish?.type === "value" ? result.finish.issues.length : -1;
      return [{ type: "finish", ending: ending({ type: "final_value", value }) }];
    };
  }
  const result = await chat(engine({ adapter: guesses(), model: "fake:m", protocol: new Cells() }), "Begin.");
  expect(seen).toEqual([1234]);
  expect(result.outcome).toEqual({ type: "final_value", value: 1 });
});

test("maxTurns ends a protocol that does not read it", async () => {
  const adapter = guesses("a", "b", "c", "d");
  const agent = engine({ adapter, model: "fake:m", protocol: guessing });
  const result = await chat(agent, "Guess my word.", { maxTurns: 3, turnLimitMessage: "No more guesses." });
  expect(result.outcome).toEqual({ type: "max_turns", maxTurns: 3 });
  expect(adapter.calls).toHaveLength(3);
  expect(result.thread.messages.at(-1)?.role).toBe("system");
});

test("step and generate make one model call of a protocol that does not read stopAfter", async () => {
  const adapter = guesses("snow", "fog");
  const agent = engine({ adapter, model: "fake:m", protocol: guessing });
  const stepped = await step(agent, "Guess my word.");
  expect(stepped.response.outputText).toBe("snow");
  expect(adapter.calls).toHaveLength(1);
  const generated = await generate(agent, "Guess my word.");
  expect(generated.outputText).toBe("fog");
  expect(adapter.calls).toHaveLength(2);
});

test("step runs the tools of a protocol that wraps the chat protocol, and generate leaves them pending", async () => {
  let runs = 0;
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: () => `look ${(runs += 1)}`,
  });
  const scripts = [[{ type: "tool_call", name: "look" } as const], [{ type: "tool_call", name: "look" } as const]];
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [look], protocol: guessing });
  const stepped = await step(agent, "Look.");
  expect(stepped.toolResults.map(({ content }) => content)).toEqual(["look 1"]);
  const generated = await generate(agent, "Look.");
  expect(generated.toolCalls).toHaveLength(1);
  expect(runs).toBe(1);
});

test("generate runs no tools of a protocol that starts them itself", async () => {
  let runs = 0;
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: () => `look ${(runs += 1)}`,
  });
  const eager: NamedProtocol = {
    ...chatProtocol(),
    name: "eager",
    version: 1,
    termination: null,
    handleLlmSuccess: ({ turnId }, modelReply) => [
      { type: "append_events", messages: [replyMessage(modelReply, `${turnId}/reply`)] },
      {
        type: "start_tools",
        calls: modelReply.toolCalls.map((call, slot) => ({ call, slot, decision: null, idempotencyKey: null })),
      },
    ],
  };
  const scripts = [[{ type: "tool_call", name: "look" } as const]];
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [look], protocol: eager });
  const generated = await generate(agent, "Look.");
  expect(generated.toolCalls).toHaveLength(1);
  expect(runs).toBe(0);
});

describe("in a session", () => {
  test("the records of earlier runs are passed to the protocol and not reported again", async () => {
    const adapter = guesses("snow", "fog", "sun", "hail", "ice", "rain");
    const short = { ...guessing, termination: { word: "rain", tries: 2 } };
    const first = await sessions.start(
      engine({ adapter, model: "fake:m", protocol: short, projector: counted }),
      "Guess.",
    );
    expect(first.result.outcome).toEqual({ type: "empty" });
    expect(first.session.protocolEvents).toEqual([recordOf("snow"), recordOf("fog")]);
    const stored = JSON.parse(JSON.stringify(first.session));
    const longer = engine({ adapter, model: "fake:m", protocol: guessing, projector: counted });
    const second = await sessions.reply(longer, stored, "Three more.");
    expect(second.result.protocolEvents).toEqual([recordOf("sun"), recordOf("hail"), recordOf("ice")]);
    expect(second.session.protocolEvents).toHaveLength(5);
    expect(lastTexts(adapter).at(2)).toBe("Guesses so far: 2.");
  });

  test("a protocol does not get the records of another one", async () => {
    const adapter = guesses("snow", "rain");
    const short = { ...guessing, termination: { word: "rain", tries: 1 } };
    const first = await sessions.start(engine({ adapter, model: "fake:m", protocol: short }), "Guess.");
    const other = engine({ adapter, model: "fake:m", protocol: { ...guessing, name: "other" } });
    const { result } = await sessions.reply(other, first.session, "Again.");
    expect(result.outcome).toEqual({ type: "final_value", value: { word: "rain", tries: 1 } });
  });

  test("a single step has the outcome of the protocol", async () => {
    const adapter = guesses("snow", "rain");
    const agent = engine({ adapter, model: "fake:m", protocol: guessing });
    const first = await sessions.step(agent, sessionOf("Guess."));
    expect(first.session.lastRun?.outcome).toEqual({ type: "stop_after" });
    expect(first.session.status).toBe("idle");
    expect(first.session.protocolEvents).toEqual([recordOf("snow")]);
    const events = sessions.streamStep(agent, first.session);
    const second = await events.result;
    expect(second.session.lastRun?.outcome).toEqual({ type: "final_value", value: { word: "rain", tries: 2 } });
  });
});

describe("what an engine rejects", () => {
  const own = { ...guessing };
  const cases: readonly (readonly [string, unknown, readonly string[]])[] = [
    ["an unknown type", { type: "x" }, ["protocol", "type"]],
    ["no object", "chat", ["protocol"]],
    ["no name", { ...own, name: undefined }, ["protocol", "name"]],
    ["an empty name", { ...own, name: "" }, ["protocol", "name"]],
    ["the name of a built-in protocol", { ...own, name: "chat" }, ["protocol", "name"]],
    ["no version", { ...own, version: undefined }, ["protocol", "version"]],
    ["version 0", { ...own, version: 0 }, ["protocol", "version"]],
    ["version 1.5", { ...own, version: 1.5 }, ["protocol", "version"]],
    ["a missing function", { ...own, handleToolResults: undefined }, ["protocol", "handleToolResults"]],
    [
      "an end condition that is not JSON",
      { ...own, termination: { at: new Date(0) } },
      ["protocol", "termination", "at"],
    ],
    ["no end condition", { ...own, termination: undefined }, ["protocol", "termination"]],
    ["an earlier version of another name", { ...own, earlier: [{ ...own, name: "b" }] }, ["protocol", "earlier", "0"]],
    ["an earlier version that is the same", { ...own, earlier: [own] }, ["protocol", "earlier", "0"]],
    ["an executor that is none", { ...own, executor: {} }, ["protocol", "executor"]],
    ["the code protocol without an executor", { type: "code" }, ["protocol", "executor"]],
  ];

  test.each(cases)("%s", (_, protocol, path) => {
    const build = () => Reflect.apply(engine, undefined, [{ protocol }]);
    expect(build).toThrow(MisuseError);
    expect(build).toThrow(expect.objectContaining({ reason: "invalid_argument", path }));
  });

  test("a projector without a version", () => {
    const build = () => Reflect.apply(engine, undefined, [{ projector: { name: "short", project: () => null } }]);
    expect(build).toThrow(expect.objectContaining({ path: ["projector", "version"] }));
  });

  test("an option of the built-in protocols", async () => {
    const agent = engine({ adapter: guesses(), model: "fake:m", protocol: guessing });
    await expect(async () => chat(agent, "Guess.", { mode: "manual" })).rejects.toThrow(
      expect.objectContaining({ reason: "invalid_argument", path: ["mode"] }),
    );
  });
});

describe("actions that are not valid fail the turn", () => {
  const finish = { type: "finish", ending: ending({ type: "empty" }) };
  const open = { type: "start_llm", useTools: false, overrides: {}, driverState: null };
  const approval = ending({ type: "approval" });
  const call = { call: { id: "c", name: 7, arguments: {} }, slot: 0, decision: null, idempotencyKey: null };
  test.each([
    [
      "a message without a role",
      "append_events.messages.0.role",
      [{ type: "append_events", messages: [{ content: "x" }] }, finish],
    ],
    [
      "a message whose content is a number",
      "append_events.messages.1.content",
      [{ type: "append_events", messages: [user("x"), { ...user("y"), content: 7 }] }, finish],
    ],
    ["no message", "append_events.messages", [{ type: "append_events", messages: null }, finish]],
    [
      "a final message that is none",
      "schedule_turn_limit_final.message",
      [{ type: "schedule_turn_limit_final", message: "stop" }, open],
    ],
    ["an event of no known type", "emit.event.type", [{ type: "emit", event: { type: "x" } }, finish]],
    ["a call whose name is a number", "start_tools.calls.0.call.name", [{ type: "start_tools", calls: [call] }]],
    ["an approval without pending calls", "finish.ending.pendingToolCalls", [{ type: "finish", ending: approval }]],
    [
      "an approval without pending calls after a checkpoint",
      "start_checkpoint.onEmpty.ending.pendingToolCalls",
      [{ type: "start_checkpoint", checkpoint: "after_work", onEmpty: { type: "finish", ending: approval } }],
    ],
  ])("%s", async (_, path, actions) => {
    const protocol = { ...chatProtocol(), name: "wrong", version: 1, termination: null };
    Object.assign(protocol, { prepareProtocolIteration: () => actions });
    const result = await chat(engine({ adapter: guesses("x"), model: "fake:m", protocol }), "Begin.");
    expect(result.outcome).toMatchObject({
      type: "runtime_error",
      failure: { reason: "invalid_actions", message: expect.stringContaining(`${path},`) },
    });
    expect(result.thread.messages).toHaveLength(1);
  });
});

describe("a projector that returns no request", () => {
  const request = ChatContextProjector.project;
  const cases: readonly (readonly [string, readonly string[], (context: Parameters<typeof request>[0]) => unknown])[] =
    [
      ["nothing", [], () => undefined],
      ["a promise", [], async (context) => request(context)],
      ["no messages", ["messages"], (context) => ({ ...request(context), messages: null })],
      [
        "a message without a role",
        ["messages", "1", "role"],
        (context) => ({ ...request(context), messages: [...request(context).messages, { content: "x" }] }),
      ],
      ["tools that are none", ["tools", "0"], (context) => ({ ...request(context), tools: [7] })],
    ];
  test.each(cases)("%s: the error names the projector and the field", async (_, path, project) => {
    const projector = { name: "short", version: 3, project: request };
    Object.assign(projector, { project });
    const adapter = guesses("x");
    const error = await chat(engine({ adapter, model: "fake:m", projector }), "Begin.").catch((reason) => reason);
    expect(error).toBeInstanceOf(MisuseError);
    expect(error).toMatchObject({
      reason: "invalid_argument",
      message: expect.stringContaining("the projector short 3"),
      path: path.map((key) => (/^\d+$/.test(key) ? Number(key) : key)),
    });
    expect(adapter.calls).toHaveLength(0);
  });
});

describe("values that are not JSON fail the turn", () => {
  const finish = { type: "finish", ending: ending({ type: "empty" }) };
  const whenDate = { type: "append_events", messages: [], events: [{ at: new Date(0) }] };
  const whenFunction = { type: "start_llm", useTools: false, overrides: {}, driverState: { when: () => 1 } };
  test.each([
    ["append_events.events.0.at", [whenDate, finish]],
    ["start_llm.driverState.when", [whenFunction]],
  ])("%s", async (path, actions) => {
    const protocol = { ...chatProtocol(), name: "wrong", version: 1, termination: null };
    Object.assign(protocol, { prepareProtocolIteration: () => actions });
    const result = await chat(engine({ adapter: guesses(), model: "fake:m", protocol }), "Begin.");
    expect(result.outcome).toMatchObject({ type: "runtime_error", failure: { reason: "invalid_actions" } });
    expect(JSON.stringify(result.outcome)).toContain(path);
    expect(result.protocolEvents).toEqual([]);
  });
});

test("an engine is described by the name and version of its protocol and projector, and restored from the registry", () => {
  const agent = engine({ model: "fake:m", protocol: guessing, projector: counted });
  const described = describeEngine(agent);
  expect(described).toMatchObject({
    protocol: { type: "own", name: "guess", version: 1 },
    projector: { name: "counted", version: 1 },
  });
  const restored = restoreEngine(described, { protocols: [guessing], projectors: [counted] });
  expect(restored.protocol).toBe(guessing);
  expect(restored.projector).toBe(counted);
  expect(() => restoreEngine(described, { projectors: [counted] })).toThrow('the registry has no protocol "guess 1"');
  expect(() => restoreEngine(described, { protocols: [{ ...guessing, version: 2 }], projectors: [counted] })).toThrow(
    "it has guess 2",
  );
});
