// The conformance suites of tool executors and of code executors.

import type { CellLimits, CellResult, CodeExecutor, ToolContext, ToolExecutor } from "../core/engine/internal.ts";
import type { CellCall, Json, JsonObject, ToolOutcome } from "../core/model/internal.ts";
import type { Cases, ConformanceCase } from "./conformance.ts";

import { systemClock } from "../core/clock/clock.ts";
import { askUser, defaultCellLimits, engine, fail, halt, tool } from "../core/engine/internal.ts";
import { toolCall, toolFailure, toolSpec } from "../core/model/internal.ts";
import { broken, casesOf, holds, patienceMs, same, thrownBy, within } from "./conformance.ts";

const rules = {
  passes: "the executor returns the value of the handler unchanged",
  thrown: "an error that a handler throws is passed on unchanged",
  progress: "the executor returns a generator itself, not a promise of one, so that its progress is reported",
  verbatim: "the handler gets its arguments and its context unchanged",
  once: "the handler runs exactly once",
};

/**
 * The conformance cases of a tool executor that calls the handler. An executor that runs calls elsewhere cannot
 * pass all of them.
 */
export function executorSuite(execute: ToolExecutor): readonly ConformanceCase[] {
  const passes = async (returned: unknown): Promise<void> =>
    unchanged(await executionResult(execute, () => returned), returned);
  const raises = async (handler: (error: Error) => unknown): Promise<void> => {
    const error = new Error("broken");
    const thrown = await thrownBy(() => executionResult(execute, () => handler(error)));
    const isSame = thrown?.error === error;
    holds(isSame, rules.thrown, "the error object of the handler", thrown?.error ?? "nothing thrown");
  };
  return casesOf({
    "a returned value is passed on unchanged": () => passes({ celsius: 21, list: [1, null, "x"] }),
    "the value of a returned promise is passed on unchanged": async () => {
      const value = { celsius: 21 };
      unchanged(await executionResult(execute, () => Promise.resolve(value)), value);
    },
    "askUser is passed on unchanged": () => passes(askUser("Which one?", { answerAs: "tool_result", hint: "a or b" })),
    "halt is passed on unchanged": () => passes(halt("out_of_stock", { left: 0 })),
    "fail is passed on unchanged": () => passes(fail("no such flight")),
    "an error that a handler throws is passed on unchanged": () =>
      raises((error) => {
        throw error;
      }),
    "an error that a handler rejects with is passed on unchanged": () =>
      raises(async (error) => {
        throw error;
      }),
    "a generator reports its progress and returns its value": async () => drains(execute, generator),
    "an async generator reports its progress and returns its value": async () => drains(execute, asyncGenerator),
    "arguments and context reach the handler unchanged": async () => {
      const seen: unknown[] = [];
      const args = { city: "Oslo", days: [1, 2] };
      await executionResult(execute, (...handlerArguments) => void seen.push(...handlerArguments), args);
      same(seen[0], { city: "Oslo", days: [1, 2] }, rules.verbatim, "the arguments");
      holds(seen[1] === context, rules.verbatim, "the context object of the call", seen[1]);
      same(context.context, { user: "u1" }, rules.verbatim, "the context of the caller");
    },
    "the handler runs exactly once, before the executor returns its value": async () => {
      let runs = 0;
      await executionResult(execute, () => (runs += 1));
      same(runs, 1, rules.once, "the number of handler runs");
    },
  });
}

const context: ToolContext = {
  context: { user: "u1" },
  sessionId: "s1",
  requestId: "conformance",
  toolCall: toolCall({ id: "c1", name: "probe", arguments: {} }),
  idempotencyKey: "k1",
  answer: null,
  signal: new AbortController().signal,
  progress: () => undefined,
  engine: engine({ model: "conformance" }),
  runChild: () => Promise.reject(new Error("the suite runs no turns")),
};

function* generator(): Generator<string, string> {
  yield "half";
  yield "nearly";
  return "done";
}

async function* asyncGenerator(): AsyncGenerator<string, string> {
  yield "half";
  yield "nearly";
  return "done";
}

type Handler = (input: JsonObject, context: ToolContext) => unknown;

/** Returns what the executor returns for a handler, without awaiting it: in an object, because it may be a promise. */
async function execution(
  execute: ToolExecutor,
  handler: Handler,
  args: JsonObject,
): Promise<{ readonly out: unknown }> {
  const probe = tool({ name: "probe", description: "A tool of the suite.", schema: { type: "object" }, handler });
  const prepared = await probe.prepare(args);
  if (!prepared.ok) throw new Error("the tool of the suite rejected its arguments");
  return { out: execute(probe, args, context, () => prepared.run(context)) };
}

async function executionResult(execute: ToolExecutor, handler: Handler, args: JsonObject = {}): Promise<unknown> {
  const { out } = await execution(execute, handler, args);
  return within(patienceMs, Promise.resolve(out), rules.passes, "the call to end");
}

function unchanged(actual: unknown, returned: unknown): void {
  holds(actual === returned, rules.passes, "the value object of the handler", actual);
}

/** Reads a generator to its end, as a run does. */
async function drains(execute: ToolExecutor, handler: () => unknown): Promise<void> {
  const { out } = await execution(execute, handler, {});
  holds(isGenerator(out), rules.progress, "a generator", out instanceof Promise ? "a promise" : out);
  const progress: unknown[] = [];
  let next = await out.next();
  for (; next.done !== true; next = await out.next()) progress.push(next.value);
  same(
    { progress, value: next.value },
    { progress: ["half", "nearly"], value: "done" },
    rules.progress,
    "the progress and the value",
  );
}

type Generated = AsyncGenerator<unknown, unknown> | Generator<unknown, unknown>;

function isGenerator(value: unknown): value is Generated {
  if (typeof value !== "object" || value === null) return false;
  return (Symbol.asyncIterator in value || Symbol.iterator in value) && "next" in value && "return" in value;
}

/**
 * The cells that the suite runs, in the language of the executor. They can call two tools, `first` and `second`, with a
 * number `n`.
 */
export type CodeCells = {
  /** Prints `one`, then `two`. */
  readonly prints: string;
  /** Finishes with `{ "answer": 42 }`. */
  readonly finishes: string;
  /** Gives up with `"no way"`. */
  readonly givesUp: string;
  /** Throws an error with the message `broken` and does not catch it. */
  readonly throws: string;
  /** Calls `first` with 1, then `second` with the answer, and finishes with the answer of `second`. */
  readonly asksInTurn: string;
  /** Calls `first` with 1 and `second` with 2 concurrently, and finishes with the list of both answers. */
  readonly asksTogether: string;
  /** Calls `first` with 1, catches the error, and prints its message. */
  readonly catches: string;
  /** An endless loop. */
  readonly spins: string;
  /** Calls `first` with 0, 1, 2 and so on, one after the other, endlessly. */
  readonly asksForever: string;
  /** Prints endlessly. */
  readonly printsForever: string;
  /** Finishes with the time and random numbers it can get, `null` for each that is not available. */
  readonly looksAround: string;
};

/** The cells in JavaScript, where tools are functions and `console.log`, `finish` and `giveUp` are globals. */
const javascriptCells: CodeCells = {
  prints: 'console.log("one");\nconsole.log("two");',
  finishes: "finish({ answer: 42 });",
  givesUp: 'giveUp("no way");',
  throws: 'throw new Error("broken");',
  asksInTurn: "const n = await first({ n: 1 });\nfinish(await second({ n }));",
  asksTogether: "finish(await Promise.all([first({ n: 1 }), second({ n: 2 })]));",
  catches: "try {\n  await first({ n: 1 });\n} catch (error) {\n  console.log(error.message);\n}",
  spins: "for (;;) {}",
  asksForever: "for (let n = 0; ; n += 1) await first({ n });",
  printsForever: 'for (;;) console.log("more");',
  looksAround: `const looks = [() => Date.now(), () => String(new Date()), () => performance.now(), () => Math.random()];
finish(looks.map((look) => {
  try {
    return look();
  } catch {
    return null;
  }
}));`,
};

const cellRules = {
  prints: "the observations of a cell are what it prints, in order",
  ends: "a cell that ends is reported as finished, with its value or its error",
  calls: "a cell stops at its calls, and continues with their answers when it is run again from its beginning",
  together: "concurrent calls are returned together",
  again:
    "execution is deterministic: the same code with the same answers makes the same calls, without a clock and without random numbers",
  diverged:
    "calls are compared with the recorded ones by name, arguments and order; a difference ends the cell as diverged",
  limits: "limits count instructions, memory, calls and output, not time",
};

/**
 * The conformance cases of a code executor. `make` is called once per run; `cells` holds the cells of the suite in
 * the executor's language (default: JavaScript).
 */
export function codeExecutorSuite(
  make: () => CodeExecutor,
  cells: CodeCells = javascriptCells,
): readonly ConformanceCase[] {
  const run: RunCell = (code, calls = [], limits = {}) => runCell(make(), code, calls, limits);
  return casesOf({
    ...endings(run, cells),
    ...cellCalls(run, cells),
    ...divergences(run, cells),
    ...limitCases(run, cells),
  });
}

type RunCell = (code: string, calls?: readonly CellCall[], limits?: Partial<CellLimits>) => Promise<CellResult>;

function endings(run: RunCell, cells: CodeCells): Cases {
  return {
    "the observations have what a cell prints, in order": async () => {
      const { observations, error } = finished(await run(cells.prints), cellRules.prints);
      const lines = observations.join("\n").trim().split(/\s+/);
      same({ lines, error }, { lines: ["one", "two"], error: null }, cellRules.prints, "the printed lines");
    },
    "a cell returns the value it finishes with": async () => {
      const { finish } = finished(await run(cells.finishes), cellRules.ends);
      same(finish, { type: "value", value: { answer: 42 } }, cellRules.ends, "finish");
    },
    "a cell returns the value it gives up with": async () => {
      const { finish } = finished(await run(cells.givesUp), cellRules.ends);
      same(finish, { type: "error", value: "no way" }, cellRules.ends, "finish");
    },
    "an uncaught error is the error of the cell": async () => checkError(await run(cells.throws), "broken"),
  };
}

function cellCalls(run: RunCell, cells: CodeCells): Cases {
  return {
    "a cell stops at a call and continues with the answer": async () => {
      same(requestedCalls(await run(cells.asksInTurn)), [firstCall], cellRules.calls, "the first calls");
      const second = { name: "second", arguments: { n: 5 } };
      same(
        requestedCalls(await run(cells.asksInTurn, [answered(firstCall, 5)])),
        [second],
        cellRules.calls,
        "the next calls",
      );
      const { finish } = finished(
        await run(cells.asksInTurn, [answered(firstCall, 5), answered(second, { sum: 6 })]),
        cellRules.calls,
      );
      same(finish?.value, { sum: 6 }, cellRules.calls, "the value of the cell");
    },
    "concurrent calls are returned together, in call order": async () => {
      same(requestedCalls(await run(cells.asksTogether)), [firstCall, secondCall], cellRules.together, "the calls");
      const answers = [answered(firstCall, "a"), answered(secondCall, "b")];
      const { finish } = finished(await run(cells.asksTogether, answers), cellRules.together);
      same(finish?.value, ["a", "b"], cellRules.together, "the answers");
    },
    "a failed call throws at the call and can be caught": async () => {
      const { observations, error } = finished(await run(cells.catches, [failed(firstCall)]), cellRules.calls);
      const caught = error === null && observations.join("\n").includes("no such flight");
      holds(caught, cellRules.calls, 'the message "no such flight" printed, and no error', { observations, error });
    },
    "a failed call that is not caught is the error of the cell": async () =>
      checkError(await run(cells.asksInTurn, [failed(firstCall)]), "no such flight"),
    "the same code with the same answers makes the same calls": async () => {
      for (const answers of [[], [answered(firstCall, 5)]]) {
        const before = requestedCalls(await run(cells.asksInTurn, answers));
        same(
          requestedCalls(await run(cells.asksInTurn, answers)),
          before,
          cellRules.again,
          "the calls of the second run",
        );
      }
    },
    "a cell has no clock and no random numbers": async () => {
      const before = finished(await run(cells.looksAround), cellRules.again);
      await systemClock.sleep(20);
      const after = finished(await run(cells.looksAround), cellRules.again);
      same(after, before, cellRules.again, "the result of a later run");
    },
  };
}

function divergences(run: RunCell, cells: CodeCells): Cases {
  const diverges = async (code: string, ...calls: readonly CellCall[]): Promise<void> => {
    checkFailed(await run(code, calls), "diverged", cellRules.diverged);
  };
  return {
    "a call of another tool than the recorded one ends the cell as diverged": async () =>
      diverges(cells.asksInTurn, answered({ name: "second", arguments: { n: 1 } }, 5)),
    "a call with other arguments than the recorded one ends the cell as diverged": async () =>
      diverges(cells.asksInTurn, answered({ name: "first", arguments: { n: 7 } }, 5)),
    "a recorded call that the cell does not make ends it as diverged": async () =>
      diverges(cells.prints, answered(firstCall, 5)),
  };
}

function limitCases(run: RunCell, cells: CodeCells): Cases {
  return {
    "an endless loop exceeds the instruction limit": async () =>
      checkLimitExceeded(await run(cells.spins, [], { instructions: 100_000 })),
    "endless calls exceed the call limit, which includes recorded calls": async () => {
      const calls: CellCall[] = [];
      for (let n = 0; n < 3; n += 1) {
        const call = { name: "first", arguments: { n } };
        same(
          requestedCalls(await run(cells.asksForever, calls, { calls: 3 })),
          [call],
          cellRules.calls,
          `call ${n + 1} of 3`,
        );
        calls.push(answered(call, null));
      }
      checkLimitExceeded(await run(cells.asksForever, calls, { calls: 3 }));
    },
    "endless output exceeds the output limit": async () =>
      checkLimitExceeded(await run(cells.printsForever, [], { output: 100 })),
  };
}

type MadeCall = { readonly name: string; readonly arguments: JsonObject };

const firstCall: MadeCall = { name: "first", arguments: { n: 1 } };
const secondCall: MadeCall = { name: "second", arguments: { n: 2 } };
const tools = ["first", "second"].map((name) =>
  toolSpec({
    name,
    description: `The ${name} tool.`,
    schema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
  }),
);

async function runCell(
  executor: CodeExecutor,
  code: string,
  calls: readonly CellCall[],
  limits: Partial<CellLimits>,
): Promise<CellResult> {
  const { signal } = new AbortController();
  const cell = { cellId: "cell", code, calls, tools, limits: { ...defaultCellLimits, ...limits }, signal };
  return within(patienceMs, executor.run(cell), cellRules.limits, "the cell to end");
}

function answered(call: MadeCall, value: Json): CellCall {
  return recorded(call, { type: "success", value, control: null });
}

function failed(call: MadeCall): CellCall {
  return recorded(call, { type: "failure", failure: toolFailure("handler_failed", { message: "no such flight" }) });
}

function recorded({ name, arguments: args }: MadeCall, answer: ToolOutcome): CellCall {
  return { call: toolCall({ id: `cell/${name}`, name, arguments: args }), answer };
}

function requestedCalls(result: CellResult): readonly MadeCall[] {
  if (result.type !== "calls") throw broken(cellRules.calls, "the cell to stop at its calls", result);
  return result.calls;
}

function finished(result: CellResult, rule: string): Extract<CellResult, { readonly type: "finished" }> {
  if (result.type !== "finished") throw broken(rule, "the cell to be finished", result);
  return result;
}

function checkError(result: CellResult, message: string): void {
  const { error, finish } = finished(result, cellRules.ends);
  const hasError = error !== null && error.includes(message) && finish === null;
  holds(hasError, cellRules.ends, `an error with the message "${message}", and no value`, { error, finish });
}

function checkLimitExceeded(result: CellResult): void {
  checkFailed(result, "limit_exceeded", cellRules.limits);
}

function checkFailed(result: CellResult, reason: "diverged" | "limit_exceeded", rule: string): void {
  holds(result.type === "failed" && result.reason === reason, rule, `the cell to end as failed: ${reason}`, result);
}
