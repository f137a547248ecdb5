// One run of a cell in the interpreter: QuickJS compiled to WebAssembly. Runs in a worker (`cell-worker.ts`).
//
// Theory of operation
//   Every run creates its own WebAssembly instance and discards it afterwards, so cells cannot see each other and a
//   trap affects one run only. A cell is replayed from its start: it runs until it makes calls that are not recorded;
//   the executor then returns these calls and the run ends. When their answers are recorded, the cell runs again from
//   its start (CellRequest.calls) and gets further.
//     1. the prelude defines the globals (tools, print, finish, giveUp) and keeps its own references to built-ins,
//        which the cell may overwrite
//     2. the code starts as an async function
//     3. all pending promise jobs run
//     4. new calls -> the run ends with them; recorded calls -> they are answered, back to 3; otherwise the cell has
//        ended
//
// Invariants
//   1. Values cross the boundary as JSON text only. Every object that a cell can reach was created inside the sandbox.
//   2. Replay is deterministic: answers are delivered only when the cell has no pending jobs, all open calls at once,
//      in the order of the calls. So a replay gets each answer at the same point, however many calls are recorded.
//      There is no `Date`, no `Math.random` and no timer.
//   3. A recorded call is compared by name and canonical arguments; a difference ends the cell as `diverged` (RULINGS
//      Q5).
//   4. A stopped cell cannot catch the stop: the interpreter is interrupted, and the stack size is set to 1 so that no
//      function can be entered. The second measure is needed because promises turn an interruption into a rejection.
//   5. Instructions, memory, calls, output and data are limited (`CellLimits`). The length of a text is checked before
//      it is copied out of the interpreter, so the heap of the worker holds at most `limits.data` characters of
//      arguments and a few times `limits.output` of output. Built-in functions do not count instructions; the deadline
//      (`cell-pool.ts`) ends a run that never leaves one.

import type { CellLimits, CellResult } from "../../core/engine/internal.ts";
import type { CellCall, Json, JsonObject, ToolOutcome } from "../../core/model/internal.ts";
import type { Shape } from "../../core/model/parse/reading.ts";
import type { CellRequest } from "./cell-messages.ts";
import type { Interpreter } from "./interpreter.ts";
import type { QuickJSContext, QuickJSHandle, QuickJSRuntime, QuickJSWASMModule } from "quickjs-emscripten-core";

import { canonicalJson, toCause, truncateMiddle } from "../../core/model/internal.ts";
import { json, jsonObject, read, string } from "../../core/model/parse/reading.ts";
import { diverged, failed, limitExceeded } from "./cell-results.ts";
import { limitMemory } from "./interpreter.ts";
import { preludeSource } from "./prelude.ts";

type IssuedCall = { readonly name: string; readonly arguments: JsonObject };

/**
 * A recorded call that the cell has made again and that is not answered yet. `settle` resolves or rejects its promise.
 */
type OpenCall = { readonly settle: QuickJSHandle; readonly answer: CallAnswer };

type CallAnswer = { readonly ok: true; readonly value: Json } | { readonly ok: false; readonly message: string };

/** The functions of the prelude. */
type Prelude = { readonly start: QuickJSHandle; readonly settle: QuickJSHandle; readonly describe: QuickJSHandle };

type SandboxResult =
  | { readonly ok: true; readonly value: QuickJSHandle }
  | { readonly ok: false; readonly error: QuickJSHandle };

type ReadResult<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string };

type HostArguments = readonly [QuickJSHandle, QuickJSHandle, QuickJSHandle, QuickJSHandle];

/** A function of the host that the prelude calls. Returns why it refused the call; `null`: it accepted. */
type HostFunction = (...given: HostArguments) => string | null;

/** QuickJS calls the interrupt handler after this number of jumps and function calls. */
const interruptStep = 10_000;

/** Instructions that one promise job counts as. */
const jobInstructions = 100;

// Stack of the interpreter. One level of calls uses several times as much of the host's stack (about 1 MB in Node),
// which must not overflow first.
const stackBytes = 192 * 1024;

/** The longest JSON escape of a character (`\u0000`), in characters. */
const maxEscapeLength = 6;

/** Longest description of a thrown value, in characters. A longer one is cut in the middle. */
const maxErrorLength = 4000;

/** Longest description that is copied out of the interpreter, in characters of JSON. */
const maxThrownLength = 10_000_000;

// All intrinsics except `Date`, which would make replay depend on the time.
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

/** Tool names that can be global variables. */
const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u;

const stackOverflow: CellResult = {
  type: "failed",
  reason: "limit_exceeded",
  message: `stack overflow: function calls are nested too deep, more than ${stackBytes} bytes of stack`,
};

/** Runs a cell until it ends or makes calls that are not recorded. */
export async function runCell(interpreter: Interpreter, request: CellRequest): Promise<CellResult> {
  return new Sandbox(await interpreter.newInstance(), request).run();
}

/** One run of one cell. */
class Sandbox {
  readonly #cell: CellRequest;
  readonly #limits: CellLimits;
  readonly #runtime: QuickJSRuntime;
  readonly #context: QuickJSContext;
  /** Handles of values inside the sandbox, disposed at the end of the run. */
  readonly #handles: QuickJSHandle[] = [];
  /** All calls that the cell has made in this run, recorded or not. */
  readonly #issuedCalls: IssuedCall[] = [];
  /** What the cell printed. */
  readonly #observations: string[] = [];
  /** Recorded calls that wait for the next delivery of answers. */
  #openCalls: OpenCall[] = [];
  #instructions = 0;
  #outputLength = 0;
  /** Characters of JSON that left the cell in arguments and in the value of `finish`. */
  #dataLength = 0;
  /** The result of a cell that was stopped or has finished; `null` while it may continue. */
  #result: CellResult | null = null;

  constructor(instance: QuickJSWASMModule, cell: CellRequest) {
    this.#cell = cell;
    this.#limits = cell.limits;
    this.#runtime = instance.newRuntime();
    this.#runtime.setMaxStackSize(stackBytes);
    this.#runtime.setInterruptHandler(() => {
      this.#spend(interruptStep);
      return this.#result !== null;
    });
    this.#context = this.#runtime.newContext({ intrinsics });
    limitMemory(instance, this.#limits.memoryBytes, () => this.#stopAt("memoryBytes"));
  }

  run(): CellResult {
    try {
      const result = this.#runToEnd();
      this.#dispose();
      return result;
    } catch (thrown) {
      // After a trap the instance is in an undefined state: it is not disposed, only dropped for the garbage collector.
      return this.#result?.type === "failed" ? this.#result : trapResult(thrown);
    }
  }

  #runToEnd(): CellResult {
    const prelude = this.#loadPrelude();
    const main = this.#callSandbox(prelude.start, this.#toSandbox(this.#cell.code));
    for (;;) {
      this.#runJobs();
      const end = this.#result ?? this.#settleOrEnd(prelude, main);
      if (end !== null) return this.#conclude(end);
    }
  }

  /** The cell has no pending jobs: returns its result, or answers its open calls and returns `null`. */
  #settleOrEnd(prelude: Prelude, main: SandboxResult): CellResult | null {
    if (this.#issuedCalls.length > this.#cell.calls.length) return this.#newCalls();
    if (this.#openCalls.length > 0) {
      this.#answerCalls(prelude);
      return null;
    }
    const end = main.ok ? this.#settledResult(prelude, main.value) : this.#thrownResult(prelude, main.error);
    // Describing a thrown value runs code of the cell (`toString`), which may stop the cell.
    return this.#result ?? end;
  }

  #settledResult(prelude: Prelude, main: QuickJSHandle): CellResult {
    const state = this.#context.getPromiseState(main);
    switch (state.type) {
      case "fulfilled":
        this.#track(state.value);
        return this.#finishedResult(null);
      case "rejected":
        return this.#thrownResult(prelude, this.#track(state.error));
      case "pending":
        if (this.#issuedCalls.length < this.#cell.calls.length) return this.#tooFewCalls();
        return failed("the cell waits for a promise that nothing resolves");
    }
  }

  #thrownResult(prelude: Prelude, error: QuickJSHandle): CellResult {
    const described = this.#callSandbox(prelude.describe, error);
    const isShown = described.ok && this.#lengthOf(described.value) <= maxThrownLength;
    const description = isShown ? this.#fromSandbox(string, described.value) : null;
    const errorText = description?.ok === true ? description.value : "something was thrown that cannot be shown";
    if (errorText === "InternalError: stack overflow") return stackOverflow;
    if (errorText === "InternalError: out of memory") return limitExceeded("memoryBytes", this.#limits);
    return this.#finishedResult(truncateMiddle(errorText, maxErrorLength));
  }

  #finishedResult(error: string | null): CellResult {
    return { type: "finished", observations: this.#observations, error, finish: null };
  }

  /**
   * The final result: a cell that finished must have made exactly the recorded calls. New calls are returned; missing
   * ones are a divergence.
   */
  #conclude(end: CellResult): CellResult {
    if (end.type !== "finished") return end;
    if (this.#issuedCalls.length > this.#cell.calls.length) return this.#newCalls();
    return this.#issuedCalls.length < this.#cell.calls.length ? this.#tooFewCalls() : end;
  }

  #newCalls(): CellResult {
    return { type: "calls", calls: this.#issuedCalls.slice(this.#cell.calls.length) };
  }

  #tooFewCalls(): CellResult {
    return diverged(`the cell made ${this.#issuedCalls.length} calls where ${this.#cell.calls.length} are recorded`);
  }

  /** Runs promise jobs until none is pending. */
  #runJobs(): void {
    while (this.#result === null && this.#runtime.hasPendingJob()) {
      this.#runtime.executePendingJobs(1).dispose();
      this.#spend(jobInstructions);
    }
  }

  /** Counts instructions and stops the cell at the limit. */
  #spend(instructions: number): void {
    this.#instructions += instructions;
    if (this.#instructions > this.#limits.instructions) this.#stopAt("instructions");
  }

  /** Ends the cell, unless it has ended. Running code is interrupted at the next interrupt check (invariant 4). */
  #stop(end: CellResult): null {
    this.#result ??= end;
    this.#runtime.setMaxStackSize(1);
    return null;
  }

  #stopAt(limit: keyof CellLimits): null {
    return this.#stop(limitExceeded(limit, this.#limits));
  }

  /** Evaluates the prelude and returns its functions. */
  #loadPrelude(): Prelude {
    const context = this.#context;
    const names = this.#cell.tools.map((name) => ({ name, isIdentifier: identifier.test(name) }));
    const load = this.#track(context.unwrapResult(context.evalCode(preludeSource, "sandbox", { type: "global" })));
    const loaded = this.#track(
      context.unwrapResult(
        context.callFunction(load, context.undefined, [
          this.#hostFunction("call", (tool, given, resolve, reject) => this.#call(tool, given, resolve, reject)),
          this.#hostFunction("print", (text) => this.#print(text)),
          this.#hostFunction("finish", (value) => this.#finish("value", value)),
          this.#hostFunction("giveUp", (value) => this.#finish("error", value)),
          this.#toSandbox(names),
        ]),
      ),
    );
    const named = (name: keyof Prelude): QuickJSHandle => this.#track(context.getProp(loaded, name));
    return { start: named("start"), settle: named("settle"), describe: named("describe") };
  }

  /**
   * Wraps a host function for the prelude. It returns `undefined`, the reason of a refusal, or `true` when the cell has
   * ended and must not continue.
   */
  #hostFunction(name: string, run: HostFunction): QuickJSHandle {
    const answer = (...given: HostArguments): QuickJSHandle => {
      const refusal = this.#result === null ? run(...given) : null;
      if (this.#result !== null) return this.#context.true;
      return refusal === null ? this.#context.undefined : this.#context.newString(refusal);
    };
    return this.#track(this.#context.newFunction(name, answer));
  }

  /** A tool call of the cell: records it, and compares it with the recorded call of the same position (invariant 3). */
  #call(tool: QuickJSHandle, given: QuickJSHandle, resolve: QuickJSHandle, reject: QuickJSHandle): string | null {
    const name = this.#cell.tools[this.#context.getNumber(tool)] ?? "";
    if (!this.#mayLeave(given)) return null;
    const argumentsRead = this.#fromSandbox(jsonObject, given);
    if (!argumentsRead.ok) return argumentsRead.message;
    const index = this.#issuedCalls.length;
    if (index >= this.#limits.calls) return this.#stopAt("calls");
    this.#issuedCalls.push({ name, arguments: argumentsRead.value });
    const recorded = this.#cell.calls[index];
    if (recorded === undefined) return null;
    const difference = callDifference(recorded, name, argumentsRead.value);
    if (difference !== null) return this.#stop(diverged(`call ${index}: ${difference}`));
    if (recorded.answer === null) return this.#stop(failed(`call ${index} is recorded without an answer`));
    const answer = callAnswer(recorded.answer);
    this.#openCalls.push({ settle: (answer.ok ? resolve : reject).dup(), answer });
    return null;
  }

  #print(text: QuickJSHandle): string | null {
    if (this.#lengthOf(text) > this.#limits.output * maxEscapeLength + 2) return this.#stopAt("output");
    const textRead = this.#fromSandbox(string, text);
    if (!textRead.ok) return textRead.message;
    this.#outputLength += textRead.value.length;
    if (this.#outputLength > this.#limits.output) return this.#stopAt("output");
    // Empty lines have no characters, but they have to be sent and stored as well.
    if (this.#observations.length >= this.#limits.output) return this.#stopAt("output");
    this.#observations.push(textRead.value);
    return null;
  }

  #finish(type: "value" | "error", value: QuickJSHandle): string | null {
    if (!this.#mayLeave(value)) return null;
    const valueRead = this.#fromSandbox(json, value);
    if (!valueRead.ok) return valueRead.message;
    const finish = { type, value: valueRead.value };
    return this.#stop({ type: "finished", observations: this.#observations, error: null, finish });
  }

  /**
   * Counts the JSON text of arguments or of a result before it is copied out of the interpreter, and stops the cell at
   * the limit.
   */
  #mayLeave(text: QuickJSHandle): boolean {
    this.#dataLength += this.#lengthOf(text);
    if (this.#dataLength <= this.#limits.data) return true;
    this.#stopAt("data");
    return false;
  }

  #lengthOf(text: QuickJSHandle): number {
    const length = this.#context.getProp(text, "length");
    const value = this.#context.getNumber(length);
    length.dispose();
    return value;
  }

  /** Delivers the answers of all open calls, in the order of the calls (invariant 2). */
  #answerCalls({ settle }: Prelude): void {
    const open = this.#openCalls;
    this.#openCalls = [];
    for (const call of open) {
      this.#track(call.settle);
      const { answer } = call;
      const ok = answer.ok ? this.#context.true : this.#context.false;
      this.#callSandbox(settle, call.settle, ok, this.#toSandbox(answer.ok ? answer.value : answer.message));
    }
  }

  #callSandbox(sandboxFunction: QuickJSHandle, ...given: readonly QuickJSHandle[]): SandboxResult {
    const result = this.#context.callFunction(sandboxFunction, this.#context.undefined, [...given]);
    if (result.error) return { ok: false, error: this.#track(result.error) };
    return { ok: true, value: this.#track(result.value) };
  }

  /** A value as JSON text inside the sandbox. */
  #toSandbox(value: Json): QuickJSHandle {
    return this.#track(this.#context.newString(JSON.stringify(value)));
  }

  /** Reads JSON text of the sandbox as a value of a shape. */
  #fromSandbox<T>(shape: Shape<T>, text: QuickJSHandle): ReadResult<T> {
    const parsed = read(shape, parseJson(this.#context.getString(text)));
    if ("value" in parsed) return { ok: true, value: parsed.value };
    return { ok: false, message: parsed.issues[0]?.message ?? "must be JSON" };
  }

  #track(handle: QuickJSHandle): QuickJSHandle {
    this.#handles.push(handle);
    return handle;
  }

  #dispose(): void {
    for (const { settle } of this.#openCalls) settle.dispose();
    for (const handle of this.#handles.reverse()) handle.dispose();
    this.#context.dispose();
    this.#runtime.dispose();
  }
}

/**
 * The result of a WebAssembly trap. A `RangeError` is an overflow of the host's stack, which deeply nested source code
 * causes in the parser of QuickJS.
 */
function trapResult(thrown: unknown): CellResult {
  return thrown instanceof RangeError ? stackOverflow : failed(`the sandbox failed: ${toCause(thrown)?.message ?? ""}`);
}

/**
 * How a call differs from the recorded one; `null`: it does not. The text holds no arguments, because they may be
 * secret.
 */
function callDifference({ call }: CellCall, name: string, given: JsonObject): string | null {
  if (call.name !== name) return `the cell called "${name}" where "${call.name}" is recorded`;
  if (canonicalJson(call.arguments) === canonicalJson(given)) return null;
  return `the cell called "${name}" with other arguments than the "${call.name}" that is recorded`;
}

/** How a recorded outcome settles the promise of its call. Everything except a success rejects. */
function callAnswer(outcome: ToolOutcome): CallAnswer {
  switch (outcome.type) {
    case "success":
      return { ok: true, value: outcome.value };
    case "failure":
      return { ok: false, message: outcome.failure.message };
    case "cancelled":
      return { ok: false, message: outcome.message === "" ? "the call was cancelled" : outcome.message };
    case "ask_user":
      return { ok: false, message: "the call waits for an answer of the user" };
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
