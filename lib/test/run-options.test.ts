// Iterates over the table of run options and proves each row: an option has its effect wherever its row says it can be
// set, and is refused by durable verbs and by HTTP otherwise.

import type { DurableRefusal, RunOptionName, EngineFields, EngineOptions } from "../src/core/engine/internal.ts";
import type { Logged, Trace } from "./option-proofs.ts";
import type { Engine, FakeAdapter, CallerContext, Json } from "everturn";
import type { MisuseReason } from "everturn/advanced";
import type { AllowedOption } from "everturn/http";
import type { DurableOptions, Runtime, RuntimeOptions, TurnHandle } from "everturn/runtime";

import { engine, fake, MisuseError, stream, configure } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, expectTypeOf, test } from "vitest";

import { runOptionNames, runOptionTable } from "../src/core/engine/internal.ts";
import { loggingClock, proofsFor, toolsFor } from "./option-proofs.ts";
import { says } from "./runs.ts";

/** One run of a proof: its engine, and what the engine records. */
class Stage {
  readonly log: Logged[] = [];
  readonly name: RunOptionName;
  readonly adapter: FakeAdapter;
  readonly needs: object;
  /** The option with its value. */
  readonly set: object;
  readonly #isCancelled: boolean;
  readonly #events: string[] = [];
  readonly #fields: EngineFields<CallerContext>;

  constructor(name: RunOptionName) {
    const { value, needs = {}, scripts = [says("ok")], isCancelled = false } = proofsFor(this.log)[name];
    this.name = name;
    this.#isCancelled = isCancelled;
    this.needs = needs;
    this.set = { [name]: value };
    const clock = loggingClock(this.log);
    this.adapter = fake({ scripts, clock });
    this.#fields = { adapter: this.adapter, model: "fake:m", tools: toolsFor(this.log), clock };
  }

  /** The engine of the run, with more fields. */
  engine(fields: object = {}): Engine {
    return engine({ ...this.#fields, ...fields });
  }

  /** The engine with the option set, once for each place that the row of the option allows. */
  engines(): readonly Engine[] {
    const { engine: place } = runOptionTable[this.name];
    return [
      ...(place === "options" || place === "both" ? [this.engine({ options: this.set })] : []),
      ...(place === "field" || place === "both" ? [this.engine(this.set)] : []),
    ];
  }

  /** Runs in memory. */
  async run(of: Engine, options: object): Promise<Trace> {
    const controller = new AbortController();
    const signal = this.#isCancelled ? { signal: controller.signal } : {};
    const running = stream(of, "hi", { ...this.needs, ...signal, ...options });
    for await (const { type } of running) {
      this.#events.push(type);
      if (type === "tool_execution_started") controller.abort();
    }
    return this.trace((await running.result).haltedReason);
  }

  /** Waits for the end of a durable turn, and cancels it if the proof needs that. */
  async end(running: Runtime, turn: TurnHandle): Promise<Trace> {
    if (this.#isCancelled) {
      for await (const { event } of turn.events) if (event.type === "tool_execution_started") break;
      await running.cancel("s1");
    }
    return this.trace((await turn.result).haltedReason);
  }

  trace(haltedReason: string): Trace {
    return { calls: this.adapter.calls, events: this.#events, log: this.log, haltedReason };
  }
}

/** A runtime with the session "s1", in which an engine without the option has answered once. */
async function sessions(of: Engine, options: Partial<RuntimeOptions> = {}): Promise<Runtime> {
  const first = engine({ adapter: fake({ script: says("Hello.") }), model: "fake:m" });
  const host = options.host ?? memoryStorage();
  const starting = runtime({ host, engines: { default: first }, live: false });
  await (
    await starting.start("hello", { id: "s1" })
  ).result;
  return runtime({ host, engines: { default: of }, live: false, ...options });
}

async function withoutOption(name: RunOptionName): Promise<Trace> {
  const stage = new Stage(name);
  return stage.run(stage.engine(), {});
}

const names = (keep: (row: (typeof runOptionTable)[RunOptionName]) => boolean): readonly RunOptionName[] =>
  runOptionNames.filter((name) => keep(runOptionTable[name]));

function effectOf(name: RunOptionName, trace: Trace): { readonly shown: unknown; readonly effect: unknown } {
  const { shows, effect } = proofsFor([])[name];
  return { shown: shows(trace), effect };
}

function expectEffect(name: RunOptionName, trace: Trace): void {
  const { shown, effect } = effectOf(name, trace);
  expect(shown).toEqual(effect);
}

function expectNoEffect(name: RunOptionName, trace: Trace): void {
  const { shown, effect } = effectOf(name, trace);
  expect(shown).not.toEqual(effect);
}

describe("an option has its effect", () => {
  test.each(runOptionNames)("%s: only if it is set", async (name) => {
    expectNoEffect(name, await withoutOption(name));
  });

  test.each(runOptionNames)("%s: set on the call", async (name) => {
    const stage = new Stage(name);
    expectEffect(name, await stage.run(stage.engine(), stage.set));
  });

  test.each(names((row) => row.engine !== "no"))("%s: set on the engine", async (name) => {
    const places = new Stage(name).engines().length;
    for (let place = 0; place < places; place += 1) {
      const stage = new Stage(name);
      const of = stage.engines()[place] ?? stage.engine();
      expectEffect(name, await stage.run(of, {}));
    }
  });

  test.each(names((row) => "configure" in row))("%s: set by configure", async (name) => {
    const stage = new Stage(name);
    const before = configure({ ...stage.set });
    try {
      expectEffect(name, await stage.run(stage.engine(), {}));
    } finally {
      configure(before);
    }
  });

  test.each(names((row) => row.durable === "stored"))("%s: set on a durable verb", async (name) => {
    const stage = new Stage(name);
    const running = await sessions(stage.engine());
    const turn = await running.reply("s1", "hi", { ...stage.needs, ...stage.set });
    expectEffect(name, await stage.end(running, turn));
  });

  test.each(names((row) => row.http === "if_allowed"))("%s: set by an HTTP caller", async (name) => {
    const stage = new Stage(name);
    const { status, haltedReason } = await post(stage, allowable);
    expect(status).toBe(200);
    expectEffect(name, stage.trace(haltedReason));
  });
});

describe("an option of the engine that accepted a turn", () => {
  const ofEngines = (keep: (pinned: string) => boolean) => names((row) => row.engine !== "no" && keep(row.pinned));

  /** The turn is accepted by a process whose engine sets the option, and driven by one whose engine does not. */
  async function drivenElsewhere(name: RunOptionName): Promise<Trace> {
    const stage = new Stage(name);
    const host = memoryStorage();
    const accepting = await sessions(stage.engines()[0] ?? stage.engine(), { host, drive: false });
    await accepting.reply("s1", "hi", stage.needs);
    const driving = runtime({ host, engines: { default: stage.engine() }, live: false });
    await driving.recover();
    return stage.end(driving, driving.attach("s1"));
  }

  test.each(ofEngines((pinned) => pinned !== "no"))("%s: is pinned", async (name) => {
    expectEffect(name, await drivenElsewhere(name));
  });

  // What the reader of an in-memory stream receives has no effect in the runtime at all.
  const resolvedAgain = ofEngines((pinned) => pinned === "no").filter(
    (name) => runOptionTable[name].durable !== "reader",
  );
  test.each(resolvedAgain)("%s: is resolved again by the process that drives the turn", async (name) => {
    expectNoEffect(name, await drivenElsewhere(name));
  });
});

describe("an option is rejected where it is not supported", () => {
  const reasons: { readonly [Why in DurableRefusal]: MisuseReason } = {
    function: "invalid_argument",
    secret: "invalid_argument",
    live: "invalid_argument",
    reader: "unknown_field",
    session: "unknown_field",
  };

  test.each(names((row) => row.durable !== "stored"))("%s: by durable verbs", async (name) => {
    const { durable } = runOptionTable[name];
    if (durable === "stored") throw new Error("it is stored");
    const stage = new Stage(name);
    const running = await sessions(stage.engine());
    const error: unknown = await running.reply("s1", "hi", { ...stage.set }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(MisuseError);
    expect(error).toMatchObject({ reason: reasons[durable], path: [name] });
    expect(String(error)).toContain(`${name} cannot be stored with a turn: `);
    expect(stage.adapter.calls).toEqual([]);
  });

  test.each(runOptionNames)("%s: by HTTP, unless its operator allows it", async (name) => {
    const stage = new Stage(name);
    expect(await post(stage, [])).toMatchObject({ status: 400, reason: "invalid_body" });
    expect(stage.adapter.calls).toEqual([]);
  });

  test.each(names((row) => row.http === "no"))("%s: by HTTP, whatever its operator allows", async (name) => {
    const stage = new Stage(name);
    expect(await post(stage, allowable)).toMatchObject({ status: 400, reason: "invalid_body" });
    expect(stage.adapter.calls).toEqual([]);
    await expect(post(stage, JSON.parse(`["${name}"]`))).rejects.toThrow(`allow: unknown option ${name}`);
  });
});

test("a number outside the range of an option is rejected by every verb that uses it", async () => {
  for (const name of names((row) => "number" in row)) {
    const row = runOptionTable[name];
    const range = "number" in row ? row.number : { least: 0, whole: false };
    const stage = new Stage(name);
    const running = await sessions(stage.engine());
    for (const value of [range.least - 1, Number.NaN, "1", ...(range.whole ? [range.least + 0.5] : [])]) {
      const given = { ...stage.needs, [name]: value };
      await expect(running.reply("s1", "hi", given)).rejects.toMatchObject({
        reason: "invalid_argument",
        path: [name],
      });
    }
    expect(stage.adapter.calls).toEqual([]);
  }
});

const checked = names((row) => "number" in row || "words" in row || "kind" in row);

test.each(checked)("a value that %s cannot have is rejected before anything runs", (name) => {
  for (const value of [-1, "other", {}].slice(name === "instructions" ? 2 : 0)) {
    const stage = new Stage(name);
    const misuse = expect.objectContaining({ reason: "invalid_argument", path: [name] });
    expect(() => stream(stage.engine(), "hi", { ...stage.needs, [name]: value })).toThrow(misuse);
    expect(stage.adapter.calls).toEqual([]);
  }
});

test("a pinned option of the new engine is not checked for a turn that another engine accepted", async () => {
  const stage = new Stage("toolTimeout");
  const host = memoryStorage();
  const accepting = await sessions(stage.engine(), { host, drive: false });
  await accepting.reply("s1", "hi", stage.needs);
  const invalid = stage.engine({ options: { toolTimeout: -1, maxToolResultLength: -1 } });
  const driving = runtime({ host, engines: { default: invalid }, live: false });
  await driving.recover();
  expect((await driving.attach("s1").result).haltedReason).toBe("completed");
});

test("the type of an engine's options follows from the table", () => {
  expectTypeOf<Extract<keyof EngineOptions, "apiKey" | "signal" | "model" | "tools">>().toEqualTypeOf<never>();
  expectTypeOf<Extract<keyof EngineOptions, "temperature" | "output" | "params" | "hooks">>().toEqualTypeOf<
    "temperature" | "output" | "params" | "hooks"
  >();
});

test("the types of stored options are JSON", () => {
  // A JSON Schema is declared with unknown values; durable verbs check that it is JSON.
  type Stored = Omit<Required<DurableOptions>, "output">;
  type NotJson = { [Name in keyof Stored]: Stored[Name] extends Json ? never : Name }[keyof Stored];
  expectTypeOf<NotJson>().toEqualTypeOf<never>();
});

const allowable: readonly AllowedOption[] = runOptionNames.filter(
  (name): name is AllowedOption => runOptionTable[name].http === "if_allowed",
);

type Answer = { readonly status: number; readonly reason: string | null; readonly haltedReason: string };

/** Posts a reply with the option of the stage to a handler that allows these options. */
async function post(stage: Stage, allow: readonly AllowedOption[]): Promise<Answer> {
  const handler = createHandler({ sessions: await sessions(stage.engine()), auth: "none", allow });
  const request = new Request("http://localhost/sessions/s1/reply", {
    method: "POST",
    headers: { "content-type": "application/json", prefer: "wait=10" },
    body: JSON.stringify({ text: "hi", options: { ...stage.needs, [stage.name]: jsonOf(stage) } }),
  });
  const response = await handler(request);
  const body: { readonly error?: { readonly reason: string }; readonly haltedReason?: string } = JSON.parse(
    await response.text(),
  );
  return { status: response.status, reason: body.error?.reason ?? null, haltedReason: body.haltedReason ?? "" };
}

/** The value of the option; functions are replaced, because JSON would leave them out. */
function jsonOf(stage: Stage): unknown {
  const value: unknown = Object.values(stage.set)[0];
  return typeof value === "function" ? null : value;
}
