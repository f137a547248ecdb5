// Runs cells of JavaScript in QuickJS, compiled to WebAssembly. Every run has an instance of the interpreter to itself and throws it away
// afterwards: no cell sees another one, and what breaks in an instance goes with it.
//
// Rules:
//   1. Values cross as JSON text and in no other form. What a cell can reach was made inside.
//   2. Answers are given when the cell can do nothing more by itself, all that it waits for at once, in the order of the calls. A cell that
//      is run again gets them at the same point, whatever number of calls is recorded by then.
//   3. What stops a cell cannot be caught: it is interrupted, and no function can be entered from then on. The second half is for promises,
//      which take an interruption for a rejection.

import type { CellLimits, CellResult, CellRun, CodeExecutor } from "../../engine/internal.ts";
import type { CellCall, Json, JsonObject, ToolOutcome } from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";
import type { QuickJSContext, QuickJSHandle, QuickJSRuntime, QuickJSWASMModule } from "quickjs-emscripten-core";

import { nextTask } from "../../clock/clock.ts";
import { canonicalJson, EngineError, toCause, truncateMiddle } from "../../model/internal.ts";
import { json, jsonObject, read, string } from "../../model/parse/reading.ts";

type QuickjsOptions = {
  /** The most any cell gets, whatever its engine allows: the lower of the two counts. */
  readonly limits?: Partial<CellLimits>;
};

type MadeCall = { readonly name: string; readonly arguments: JsonObject };

/** A recorded call that the cell has made again and waits for. `settle` resolves or rejects its promise, as the answer has it. */
type OpenCall = { readonly settle: QuickJSHandle; readonly answer: CallAnswer };

type CallAnswer = { readonly ok: true; readonly value: Json } | { readonly ok: false; readonly message: string };

/** The functions of the prelude. */
type Prelude = { readonly start: QuickJSHandle; readonly settle: QuickJSHandle; readonly describe: QuickJSHandle };

type InsideResult =
  | { readonly ok: true; readonly value: QuickJSHandle }
  | { readonly ok: false; readonly error: QuickJSHandle };

type Found<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string };

type HostArguments = readonly [QuickJSHandle, QuickJSHandle, QuickJSHandle, QuickJSHandle];

/** Says why it refused; `null` if it did not. */
type HostFunction = (...given: HostArguments) => string | null;

/** QuickJS asks whether to go on after so many jumps and calls of functions. */
const interruptStep = 10_000;

/** What a job of a promise counts as: about the time it takes. */
const jobInstructions = 100;

/** How many instructions may go by before the host gets a chance to abort. */
const pauseStep = 1_000_000;

// A level of calls takes several times as much of the host's stack, which must not be the first to overflow: about 1 MB in Node.
const stackBytes = 192 * 1024;

const wasmPageBytes = 65_536;

const maxErrorLength = 4000;

// All but `Date`.
const intrinsics = {
  BaseObjects: true,
  Eval: true,
  StringNormalize: true,
  RegExp: true,
  RegExpCompiler: true,
  JSON: true,
  Proxy: true,
  MapSet: true,
  TypedArrays: true,
  Promise: true,
  BigInt: true,
};

const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u;

const limitWords: { readonly [L in keyof CellLimits]: string } = {
  instructions: "instructions",
  memoryBytes: "bytes of memory",
  calls: "calls",
  output: "characters of output",
};

const aborted: CellResult = { type: "failed", reason: "failed", message: "aborted" };

const stackOverflow: CellResult = {
  type: "failed",
  reason: "limit_exceeded",
  message: `functions nested too deep: more than ${stackBytes} bytes of stack`,
};

/**
 * A sandboxed executor for cells of JavaScript. Needs the packages `quickjs-emscripten-core` and
 * `@jitl/quickjs-singlefile-mjs-release-sync`.
 *
 * A cell is the body of an async function. Its globals are one function per tool (called with one object), `tools`
 * (all of them by name), `print` and `console.log`, and `finish(value)` and `giveUp(value)`, which end the cell.
 * There is no clock, no randomness, no timers and no modules.
 *
 * Limits: `instructions` counts jumps and function calls of the interpreter in steps of 10 000, and 100 per
 * promise job; `memoryBytes` counts all memory of the interpreter, which starts at 16 MB and grows by a fifth at a
 * time. A built-in function counts as one instruction whatever its work, and the signal is checked between jobs.
 * This contains mistakes; hostile code also needs a process that can be killed.
 */
export function quickjs(options: QuickjsOptions = {}): CodeExecutor {
  return {
    name: "quickjs",
    version: "1",
    language: "javascript",
    run: async (cell) => {
      const instance = await newInstance();
      if (cell.signal.aborted) return aborted;
      return new Sandbox(instance, cell, lowerLimits(cell.limits, options.limits ?? {})).run();
    },
  };
}

async function newInstance(): Promise<QuickJSWASMModule> {
  const { core, variant } = await loadPackages();
  return core.newQuickJSWASMModuleFromVariant(variant.default);
}

async function loadPackages() {
  try {
    const [core, variant] = await Promise.all([
      import("quickjs-emscripten-core"),
      import("@jitl/quickjs-singlefile-mjs-release-sync"),
    ]);
    return { core, variant };
  } catch (cause) {
    const packages = "quickjs-emscripten-core @jitl/quickjs-singlefile-mjs-release-sync";
    const message = `quickjs(): two packages that run cells cannot be loaded; npm install ${packages}`;
    throw new EngineError("invalid_engine", { message, cause });
  }
}

/** One run of one cell. */
class Sandbox {
  readonly #cell: CellRun;
  readonly #limits: CellLimits;
  readonly #runtime: QuickJSRuntime;
  readonly #context: QuickJSContext;
  readonly #held: QuickJSHandle[] = [];
  readonly #made: MadeCall[] = [];
  readonly #observations: string[] = [];
  #open: OpenCall[] = [];
  #instructions = 0;
  #pausedAt = 0;
  #printed = 0;
  #end: CellResult | null = null;

  constructor(instance: QuickJSWASMModule, cell: CellRun, limits: CellLimits) {
    this.#cell = cell;
    this.#limits = limits;
    this.#runtime = instance.newRuntime();
    this.#runtime.setMaxStackSize(stackBytes);
    this.#runtime.setInterruptHandler(() => {
      this.#spend(interruptStep);
      return this.#end !== null;
    });
    this.#context = this.#runtime.newContext({ intrinsics });
    this.#limitMemory(instance);
  }

  async run(): Promise<CellResult> {
    try {
      const result = await this.#work();
      this.#dispose();
      return result;
    } catch (thrown) {
      // An instance that broke is not to be touched again; nothing outside of it holds on to it.
      return this.#end?.type === "failed" ? this.#end : brokenResult(thrown);
    }
  }

  async #work(): Promise<CellResult> {
    const prelude = this.#loadPrelude();
    const main = this.#callInside(prelude.start, this.#text(this.#cell.code));
    for (;;) {
      await this.#runJobs();
      const end = this.#end ?? this.#nextStep(prelude, main);
      if (end !== null) return this.#conclude(end);
    }
  }

  /** The cell can do nothing more by itself: answers what it waits for, or says what came of it. */
  #nextStep(prelude: Prelude, main: InsideResult): CellResult | null {
    if (this.#made.length > this.#cell.calls.length) return this.#newCalls();
    if (this.#open.length > 0) {
      this.#answerCalls(prelude);
      return null;
    }
    const end = main.ok ? this.#settled(prelude, main.value) : this.#thrown(prelude, main.error);
    // Saying what was thrown runs code of the cell, and may stop it.
    return this.#end ?? end;
  }

  #settled(prelude: Prelude, main: QuickJSHandle): CellResult {
    const state = this.#context.getPromiseState(main);
    switch (state.type) {
      case "fulfilled":
        this.#hold(state.value);
        return this.#finished(null);
      case "rejected":
        return this.#thrown(prelude, this.#hold(state.error));
      case "pending":
        if (this.#made.length < this.#cell.calls.length) return this.#tooFewCalls();
        return failed("the cell waits for something that never happens");
    }
  }

  #thrown(prelude: Prelude, error: QuickJSHandle): CellResult {
    const described = this.#callInside(prelude.describe, error);
    const found = described.ok ? this.#read(string, described.value) : described;
    const words = found.ok ? found.value : "something was thrown that cannot be shown";
    if (words === "InternalError: stack overflow") return stackOverflow;
    if (words === "InternalError: out of memory") return this.#exceeded("memoryBytes");
    return this.#finished(truncateMiddle(words, maxErrorLength));
  }

  #finished(error: string | null): CellResult {
    return { type: "finished", observations: this.#observations, error, finish: null };
  }

  /** A cell that ends leaves no call behind that was not made, and has made all that are recorded. */
  #conclude(end: CellResult): CellResult {
    if (end.type !== "finished") return end;
    if (this.#made.length > this.#cell.calls.length) return this.#newCalls();
    return this.#made.length < this.#cell.calls.length ? this.#tooFewCalls() : end;
  }

  #newCalls(): CellResult {
    return { type: "calls", calls: this.#made.slice(this.#cell.calls.length) };
  }

  #tooFewCalls(): CellResult {
    return diverged(`the cell made ${this.#made.length} calls where ${this.#cell.calls.length} are recorded`);
  }

  #exceeded(limit: keyof CellLimits): CellResult {
    const message = `more than ${this.#limits[limit]} ${limitWords[limit]} (limits.${limit})`;
    return { type: "failed", reason: "limit_exceeded", message };
  }

  async #runJobs(): Promise<void> {
    while (this.#end === null && this.#runtime.hasPendingJob()) {
      this.#runtime.executePendingJobs(1).dispose();
      this.#spend(jobInstructions);
      if (this.#instructions - this.#pausedAt >= pauseStep) await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    this.#pausedAt = this.#instructions;
    await nextTask();
    if (this.#cell.signal.aborted) this.#stop(aborted);
  }

  #spend(instructions: number): void {
    this.#instructions += instructions;
    if (this.#instructions > this.#limits.instructions) this.#stop(this.#exceeded("instructions"));
  }

  /** Ends the cell, unless it has ended; what runs in it is interrupted the next time the interpreter asks. */
  #stop(end: CellResult): null {
    this.#end ??= end;
    this.#runtime.setMaxStackSize(1);
    return null;
  }

  /** QuickJS has a limit of its own, but compiled by emscripten it does not know how much it has allocated. */
  #limitMemory(instance: QuickJSWASMModule): void {
    const memory = instance.getWasmMemory();
    const grow = memory.grow.bind(memory);
    const limited = (pages: number): number => {
      if (memory.buffer.byteLength + pages * wasmPageBytes <= this.#limits.memoryBytes) return grow(pages);
      this.#stop(this.#exceeded("memoryBytes"));
      throw new RangeError("memory limit");
    };
    Object.defineProperty(memory, "grow", { value: limited });
  }

  #loadPrelude(): Prelude {
    const context = this.#context;
    const names = this.#cell.tools.map(({ name }) => ({ name, isIdentifier: identifier.test(name) }));
    const load = this.#hold(context.unwrapResult(context.evalCode(preludeSource, "sandbox", { type: "global" })));
    const loaded = this.#hold(
      context.unwrapResult(
        context.callFunction(load, context.undefined, [
          this.#hostFunction("call", (tool, given, resolve, reject) => this.#call(tool, given, resolve, reject)),
          this.#hostFunction("print", (text) => this.#print(text)),
          this.#hostFunction("finish", (value) => this.#finish("value", value)),
          this.#hostFunction("giveUp", (value) => this.#finish("error", value)),
          this.#text(names),
        ]),
      ),
    );
    const named = (name: keyof Prelude): QuickJSHandle => this.#hold(context.getProp(loaded, name));
    return { start: named("start"), settle: named("settle"), describe: named("describe") };
  }

  /** A function for the prelude: gives `undefined`, or why it refused, or `true` when the cell has ended and must not go on. */
  #hostFunction(name: string, run: HostFunction): QuickJSHandle {
    const answer = (...given: HostArguments): QuickJSHandle => {
      const refused = this.#end === null ? run(...given) : null;
      if (this.#end !== null) return this.#context.true;
      return refused === null ? this.#context.undefined : this.#context.newString(refused);
    };
    return this.#hold(this.#context.newFunction(name, answer));
  }

  #call(tool: QuickJSHandle, given: QuickJSHandle, resolve: QuickJSHandle, reject: QuickJSHandle): string | null {
    const name = this.#cell.tools[this.#context.getNumber(tool)]?.name ?? "";
    const found = this.#read(jsonObject, given);
    if (!found.ok) return found.message;
    const index = this.#made.length;
    if (index >= this.#limits.calls) return this.#stop(this.#exceeded("calls"));
    this.#made.push({ name, arguments: found.value });
    const recorded = this.#cell.calls[index];
    if (recorded === undefined) return null;
    const difference = callDifference(recorded, name, found.value);
    if (difference !== null) return this.#stop(diverged(`call ${index}: ${difference}`));
    if (recorded.answer === null) return this.#stop(failed(`call ${index} is recorded without an answer`));
    const answer = callAnswer(recorded.answer);
    this.#open.push({ settle: (answer.ok ? resolve : reject).dup(), answer });
    return null;
  }

  #print(text: QuickJSHandle): string | null {
    const found = this.#read(string, text);
    if (!found.ok) return found.message;
    this.#printed += found.value.length;
    if (this.#printed > this.#limits.output) return this.#stop(this.#exceeded("output"));
    this.#observations.push(found.value);
    return null;
  }

  #finish(type: "value" | "error", value: QuickJSHandle): string | null {
    const found = this.#read(json, value);
    if (!found.ok) return found.message;
    const finish = { type, value: found.value };
    return this.#stop({ type: "finished", observations: this.#observations, error: null, finish });
  }

  #answerCalls({ settle }: Prelude): void {
    const open = this.#open;
    this.#open = [];
    for (const call of open) {
      this.#hold(call.settle);
      const { answer } = call;
      const ok = answer.ok ? this.#context.true : this.#context.false;
      this.#callInside(settle, call.settle, ok, this.#text(answer.ok ? answer.value : answer.message));
    }
  }

  #callInside(inside: QuickJSHandle, ...given: readonly QuickJSHandle[]): InsideResult {
    const result = this.#context.callFunction(inside, this.#context.undefined, [...given]);
    if (result.error) return { ok: false, error: this.#hold(result.error) };
    return { ok: true, value: this.#hold(result.value) };
  }

  /** A value on its way in. */
  #text(value: Json): QuickJSHandle {
    return this.#hold(this.#context.newString(JSON.stringify(value)));
  }

  /** A value on its way out. */
  #read<T>(shape: Shape<T>, text: QuickJSHandle): Found<T> {
    const found = read(shape, parseJson(this.#context.getString(text)));
    if ("value" in found) return { ok: true, value: found.value };
    return { ok: false, message: found.issues[0]?.message ?? "must be JSON" };
  }

  #hold(handle: QuickJSHandle): QuickJSHandle {
    this.#held.push(handle);
    return handle;
  }

  #dispose(): void {
    for (const { settle } of this.#open) settle.dispose();
    for (const handle of this.#held.reverse()) handle.dispose();
    this.#context.dispose();
    this.#runtime.dispose();
  }
}

function lowerLimits(own: CellLimits, most: Partial<CellLimits>): CellLimits {
  const lower = (limit: keyof CellLimits): number => Math.min(own[limit], most[limit] ?? Infinity);
  return {
    instructions: lower("instructions"),
    memoryBytes: lower("memoryBytes"),
    calls: lower("calls"),
    output: lower("output"),
  };
}

function failed(message: string): CellResult {
  return { type: "failed", reason: "failed", message };
}

function diverged(message: string): CellResult {
  return { type: "failed", reason: "diverged", message };
}

/** What a trap of WebAssembly comes to. The host's stack can still overflow: the parser takes little of the interpreter's. */
function brokenResult(thrown: unknown): CellResult {
  return thrown instanceof RangeError ? stackOverflow : failed(`the sandbox broke: ${toCause(thrown)?.message ?? ""}`);
}

/** How a call differs from the recorded one; arguments are not repeated. */
function callDifference({ call }: CellCall, name: string, given: JsonObject): string | null {
  if (call.name !== name) return `the cell called "${name}" where "${call.name}" is recorded`;
  if (canonicalJson(call.arguments) === canonicalJson(given)) return null;
  return `the cell called "${name}" with other arguments than the "${call.name}" that is recorded`;
}

function callAnswer(outcome: ToolOutcome): CallAnswer {
  switch (outcome.type) {
    case "success":
      return { ok: true, value: outcome.value };
    case "failure":
      return { ok: false, message: outcome.failure.message };
    case "cancelled":
      return { ok: false, message: outcome.message === "" ? "the call was cancelled" : outcome.message };
    case "ask_user":
      return { ok: false, message: "the call waits for somebody to answer" };
    case "halt":
      return { ok: false, message: `the call stopped the run: ${outcome.reason}` };
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Runs before the code of the cell and keeps what it needs of the globals, which the cell may change. After a call of the host that gives
// `true` it goes round in circles until it is interrupted.
const preludeSource = `(call, print, finish, giveUp, names) => {
  "use strict";
  const { parse, stringify } = JSON;
  const { isFinite } = Number;
  const { isArray } = Array;
  const { defineProperty, freeze, hasOwn } = Object;
  const TextError = Error;
  const TypeTextError = TypeError;
  const Later = Promise;
  const AsyncFunction = (async () => {}).constructor;

  const describe = (thrown) => {
    if (typeof thrown === "string") return thrown;
    if (thrown instanceof TextError) {
      const name = thrown.name + "";
      const message = thrown.message + "";
      return name === "" || message === "" ? name + message : name + ": " + message;
    }
    return thrown === undefined ? "undefined" : stringify(thrown) ?? "a " + typeof thrown;
  };

  const shown = (value) => {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeTextError("print: a " + typeof value + " is not JSON");
    return describe(value);
  };

  const refuseOther = (key, value) => {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeTextError("a " + typeof value + " is not JSON");
    if (typeof value === "number" && !isFinite(value)) throw new TypeTextError(value + " is not JSON");
    return value;
  };

  const data = (value) => {
    const text = stringify(value, refuseOther);
    if (text === undefined) throw new TypeTextError("the value is not JSON");
    return text;
  };

  const define = (target, name, value) => {
    defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
  };

  const say = (...values) => {
    let text = "";
    for (let index = 0; index < values.length; index += 1) text += (index === 0 ? "" : " ") + shown(values[index]);
    const refused = print(stringify(text));
    while (refused === true);
    if (refused !== undefined) throw new TypeTextError("print: " + refused);
  };

  const ending = (name, end) => {
    const run = (value) => {
      const refused = end(data(value === undefined ? null : value));
      while (refused === true);
      throw new TypeTextError(name + ": " + refused);
    };
    define(run, "name", name);
    return run;
  };

  const tool = (name, index) => {
    const run = async (given = {}) => {
      if (typeof given !== "object" || given === null || isArray(given)) {
        throw new TypeTextError(name + ": the arguments must be one object");
      }
      const text = data(given);
      let settle;
      const answer = new Later((resolve, reject) => { settle = { resolve, reject }; });
      const refused = call(index, text, settle.resolve, settle.reject);
      while (refused === true);
      if (refused !== undefined) throw new TypeTextError(name + ": " + refused);
      return answer;
    };
    define(run, "name", name);
    return run;
  };

  define(Math, "random", () => { throw new TextError("there are no dice in a cell"); });
  define(globalThis, "print", say);
  define(globalThis, "console", { log: say });
  define(globalThis, "finish", ending("finish", finish));
  define(globalThis, "giveUp", ending("giveUp", giveUp));
  const tools = { __proto__: null };
  define(globalThis, "tools", tools);
  parse(names).forEach(({ name, isIdentifier }, index) => {
    define(tools, name, tool(name, index));
    if (isIdentifier && !hasOwn(globalThis, name)) define(globalThis, name, tools[name]);
  });
  freeze(tools);

  return {
    start: (code) => new AsyncFunction(parse(code))(),
    settle: (settle, ok, text) => settle(ok ? parse(text) : new TextError(parse(text))),
    describe: (thrown) => stringify(describe(thrown)),
  };
}`;
