// What everything that runs tools, or cells of code, has to keep.

import type { CellLimits, CellResult, CodeExecutor, ToolContext, ToolExecutor } from "../engine/internal.ts";
import type { CellCall, Json, JsonObject, ToolOutcome } from "../model/internal.ts";
import type { ConformanceCase } from "./conformance.ts";

import { systemClock } from "../clock/clock.ts";
import { askUser, defaultCellLimits, engine, fail, halt, tool } from "../engine/internal.ts";
import { toolCall, toolFailure, toolSpec } from "../model/internal.ts";
import { broken, holds, patienceMs, same, thrownBy, within } from "./conformance.ts";

const rules = {
  passes: "what a handler returns comes out as it is",
  thrown: "what a handler throws comes out as it is",
  progress: "a generator comes out as a generator, not as a promise of one, so that what it yields is shown",
  verbatim: "a handler gets its arguments and its context as they were given",
  once: "a call runs once",
};

/**
 * The conformance cases of a tool executor that calls the handler. An executor that runs calls elsewhere cannot
 * pass all of them.
 */
export function executorSuite(execute: ToolExecutor): readonly ConformanceCase[] {
  const passes = (name: string, returned: unknown): ConformanceCase => ({
    name,
    run: async () => unchanged(await cameOut(execute, () => returned), returned),
  });
  const raises = (name: string, handler: (error: Error) => unknown): ConformanceCase => ({
    name,
    run: async () => {
      const error = new Error("broken");
      const thrown = await thrownBy(() => cameOut(execute, () => handler(error)));
      holds(thrown?.error === error, rules.thrown, "the very error of the handler", thrown?.error ?? "nothing thrown");
    },
  });
  return [
    passes("a value comes out as it is", { celsius: 21, list: [1, null, "x"] }),
    {
      name: "what a promise comes to comes out as it is",
      run: async () => {
        const value = { celsius: 21 };
        unchanged(await cameOut(execute, () => Promise.resolve(value)), value);
      },
    },
    passes("askUser comes out as it is", askUser("Which one?", { answerAs: "tool_result", hint: "a or b" })),
    passes("halt comes out as it is", halt("out_of_stock", { left: 0 })),
    passes("fail comes out as it is", fail("no such flight")),
    raises("what a handler throws comes out as it is", (error) => {
      throw error;
    }),
    raises("what a handler rejects with comes out as it is", async (error) => {
      throw error;
    }),
    {
      name: "a generator shows its progress and comes to its value",
      run: async () => drains(execute, generator),
    },
    {
      name: "an async generator shows its progress and comes to its value",
      run: async () => drains(execute, asyncGenerator),
    },
    {
      name: "arguments and context reach the handler as they were given",
      run: async () => {
        const seen: unknown[] = [];
        const args = { city: "Oslo", days: [1, 2] };
        await cameOut(execute, (...given) => void seen.push(...given), args);
        same(seen[0], { city: "Oslo", days: [1, 2] }, rules.verbatim, "the arguments");
        holds(seen[1] === context, rules.verbatim, "the very context", seen[1]);
        same(context.context, { user: "u1" }, rules.verbatim, "the caller's own context");
      },
    },
    {
      name: "a call runs once, and before it has come out",
      run: async () => {
        let runs = 0;
        await cameOut(execute, () => (runs += 1));
        same(runs, 1, rules.once, "how often the handler ran");
      },
    },
  ];
}

const context: ToolContext = {
  context: { user: "u1" },
  sessionId: "s1",
  requestId: "conformance",
  toolCall: toolCall({ id: "c1", name: "probe", arguments: {} }),
  idempotencyKey: "k1",
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

/** What an executor gives for a handler, before anybody has awaited it: in a box, because it may be a promise. */
async function given(execute: ToolExecutor, handler: Handler, args: JsonObject): Promise<{ readonly out: unknown }> {
  const probe = tool({ name: "probe", description: "A tool of the suite.", schema: { type: "object" }, handler });
  const prepared = await probe.prepare(args);
  if (!prepared.ok) throw new Error("the suite's own tool refused its arguments");
  return { out: execute(probe, args, context, () => prepared.run(context)) };
}

async function cameOut(execute: ToolExecutor, handler: Handler, args: JsonObject = {}): Promise<unknown> {
  const { out } = await given(execute, handler, args);
  return within(patienceMs, Promise.resolve(out), rules.passes, "the call to end");
}

function unchanged(came: unknown, returned: unknown): void {
  holds(came === returned, rules.passes, "the very value of the handler", came);
}

/** Reads a generator as a run does. */
async function drains(execute: ToolExecutor, handler: () => unknown): Promise<void> {
  const { out } = await given(execute, handler, {});
  holds(isGenerator(out), rules.progress, "a generator", out instanceof Promise ? "a promise" : out);
  const shown: unknown[] = [];
  let next = await out.next();
  for (; next.done !== true; next = await out.next()) shown.push(next.value);
  same({ shown, value: next.value }, { shown: ["half", "nearly"], value: "done" }, rules.progress, "what came of it");
}

type Generated = AsyncGenerator<unknown, unknown> | Generator<unknown, unknown>;

function isGenerator(value: unknown): value is Generated {
  if (typeof value !== "object" || value === null) return false;
  return (Symbol.asyncIterator in value || Symbol.iterator in value) && "next" in value && "return" in value;
}

/** The cells the suite runs, in the language of the executor. They can call two tools, `first` and `second`, with a number `n`. */
export type CodeCells = {
  /** Prints `one`, then `two`. */
  readonly prints: string;
  /** Finishes with `{ "answer": 42 }`. */
  readonly finishes: string;
  /** Gives up with `"no way"`. */
  readonly givesUp: string;
  /** Throws an error that says `broken`, and catches nothing. */
  readonly throws: string;
  /** Calls `first` with 1, then `second` with the answer, and finishes with the answer to that. */
  readonly asksInTurn: string;
  /** Calls `first` with 1 and `second` with 2 without waiting in between, and finishes with the list of both answers. */
  readonly asksTogether: string;
  /** Calls `first` with 1, catches what that throws, and prints its message. */
  readonly catches: string;
  /** Never ends, and does nothing. */
  readonly spins: string;
  /** Calls `first` with 0, 1, 2 and so on, one after the other, without end. */
  readonly asksForever: string;
  /** Prints without end. */
  readonly printsForever: string;
  /** Finishes with all it can find out about the time and from dice. */
  readonly looksAround: string;
};

/** The cells in JavaScript, where tools are functions, and there are `console.log`, `finish` and `giveUp`. */
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
  prints: "what a cell prints is what it is seen to do, in order",
  ends: "a cell that is done is finished, with what it ended with or what it threw",
  calls: "a cell stops at its calls and goes on with their answers, run from its beginning",
  together: "calls that may run side by side come together",
  again: "the same code with the same answers makes the same calls: there is no clock in a cell, and no dice",
  diverged:
    "calls are compared with the recorded ones, by name and arguments, in order; one that differs ends the cell as diverged",
  limits: "limits count instructions, memory, calls and output, never time",
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
  return [...endings(run, cells), ...cellCalls(run, cells), ...divergences(run, cells), ...limitCases(run, cells)];
}

type RunCell = (code: string, calls?: readonly CellCall[], limits?: Partial<CellLimits>) => Promise<CellResult>;

function endings(run: RunCell, cells: CodeCells): readonly ConformanceCase[] {
  return [
    {
      name: "what a cell prints is seen, in order",
      run: async () => {
        const { observations, error } = finished(await run(cells.prints), cellRules.prints);
        const lines = observations.join("\n").trim().split(/\s+/);
        same({ lines, error }, { lines: ["one", "two"], error: null }, cellRules.prints, "what was printed");
      },
    },
    {
      name: "a cell ends with the value it finishes with",
      run: async () => {
        const { finish } = finished(await run(cells.finishes), cellRules.ends);
        same(finish, { type: "value", value: { answer: 42 } }, cellRules.ends, "finish");
      },
    },
    {
      name: "a cell ends with what it gives up with",
      run: async () => {
        const { finish } = finished(await run(cells.givesUp), cellRules.ends);
        same(finish, { type: "error", value: "no way" }, cellRules.ends, "finish");
      },
    },
    {
      name: "what a cell throws and nobody catches is its error",
      run: async () => endedWith(await run(cells.throws), "broken"),
    },
  ];
}

function cellCalls(run: RunCell, cells: CodeCells): readonly ConformanceCase[] {
  return [
    {
      name: "a cell stops at a call and goes on with the answer",
      run: async () => {
        same(asked(await run(cells.asksInTurn)), [one], cellRules.calls, "the first calls");
        const second = { name: "second", arguments: { n: 5 } };
        same(asked(await run(cells.asksInTurn, [answered(one, 5)])), [second], cellRules.calls, "the next calls");
        const { finish } = finished(
          await run(cells.asksInTurn, [answered(one, 5), answered(second, { sum: 6 })]),
          cellRules.calls,
        );
        same(finish?.value, { sum: 6 }, cellRules.calls, "the value it finished with");
      },
    },
    {
      name: "calls made side by side come together, in their order",
      run: async () => {
        same(asked(await run(cells.asksTogether)), [one, two], cellRules.together, "the calls");
        const answers = [answered(one, "a"), answered(two, "b")];
        const { finish } = finished(await run(cells.asksTogether, answers), cellRules.together);
        same(finish?.value, ["a", "b"], cellRules.together, "the answers");
      },
    },
    {
      name: "a call that failed throws where it was made, and can be caught",
      run: async () => {
        const { observations, error } = finished(await run(cells.catches, [failed(one)]), cellRules.calls);
        const caught = error === null && observations.join("\n").includes("no such flight");
        holds(caught, cellRules.calls, 'the message "no such flight" printed, and no error', { observations, error });
      },
    },
    {
      name: "a call that failed and is not caught is the error of the cell",
      run: async () => endedWith(await run(cells.asksInTurn, [failed(one)]), "no such flight"),
    },
    {
      name: "the same code with the same answers makes the same calls",
      run: async () => {
        for (const answers of [[], [answered(one, 5)]]) {
          const before = asked(await run(cells.asksInTurn, answers));
          same(asked(await run(cells.asksInTurn, answers)), before, cellRules.again, "the calls of the second run");
        }
      },
    },
    {
      name: "a cell finds neither a clock nor dice",
      run: async () => {
        const before = finished(await run(cells.looksAround), cellRules.again);
        await systemClock.sleep(20);
        const after = finished(await run(cells.looksAround), cellRules.again);
        same(after, before, cellRules.again, "what a later run finds");
      },
    },
  ];
}

function divergences(run: RunCell, cells: CodeCells): readonly ConformanceCase[] {
  const diverges = async (code: string, ...calls: readonly CellCall[]): Promise<void> => {
    stopped(await run(code, calls), "diverged", cellRules.diverged);
  };
  return [
    {
      name: "a call of another tool than the recorded one ends the cell as diverged",
      run: async () => diverges(cells.asksInTurn, answered({ name: "second", arguments: { n: 1 } }, 5)),
    },
    {
      name: "a call with other arguments than the recorded one ends the cell as diverged",
      run: async () => diverges(cells.asksInTurn, answered({ name: "first", arguments: { n: 7 } }, 5)),
    },
    {
      name: "a recorded call that is not made again ends the cell as diverged",
      run: async () => diverges(cells.prints, answered(one, 5)),
    },
  ];
}

function limitCases(run: RunCell, cells: CodeCells): readonly ConformanceCase[] {
  return [
    {
      name: "a cell that never ends runs out of instructions",
      run: async () => exceeded(await run(cells.spins, [], { instructions: 100_000 })),
    },
    {
      name: "a cell that calls without end runs out of calls, those recorded among them",
      run: async () => {
        const calls: CellCall[] = [];
        for (let n = 0; n < 3; n += 1) {
          const call = { name: "first", arguments: { n } };
          same(asked(await run(cells.asksForever, calls, { calls: 3 })), [call], cellRules.calls, `call ${n + 1} of 3`);
          calls.push(answered(call, null));
        }
        exceeded(await run(cells.asksForever, calls, { calls: 3 }));
      },
    },
    {
      name: "a cell that prints without end runs out of output",
      run: async () => exceeded(await run(cells.printsForever, [], { output: 100 })),
    },
  ];
}

type MadeCall = { readonly name: string; readonly arguments: JsonObject };

const one: MadeCall = { name: "first", arguments: { n: 1 } };
const two: MadeCall = { name: "second", arguments: { n: 2 } };
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

function answered(made: MadeCall, value: Json): CellCall {
  return recorded(made, { type: "success", value, control: null });
}

function failed(made: MadeCall): CellCall {
  return recorded(made, { type: "failure", failure: toolFailure("handler_failed", { message: "no such flight" }) });
}

function recorded({ name, arguments: args }: MadeCall, answer: ToolOutcome): CellCall {
  return { call: toolCall({ id: `cell/${name}`, name, arguments: args }), answer };
}

function asked(result: CellResult): readonly MadeCall[] {
  if (result.type !== "calls") throw broken(cellRules.calls, "the cell to stop at its calls", result);
  return result.calls;
}

function finished(result: CellResult, rule: string): Extract<CellResult, { readonly type: "finished" }> {
  if (result.type !== "finished") throw broken(rule, "the cell to have finished", result);
  return result;
}

function endedWith(result: CellResult, message: string): void {
  const { error, finish } = finished(result, cellRules.ends);
  const said = error !== null && error.includes(message) && finish === null;
  holds(said, cellRules.ends, `an error that says "${message}", and nothing it finished with`, { error, finish });
}

function exceeded(result: CellResult): void {
  stopped(result, "limit_exceeded", cellRules.limits);
}

function stopped(result: CellResult, reason: "diverged" | "limit_exceeded", rule: string): void {
  holds(result.type === "failed" && result.reason === reason, rule, `the cell to end as failed: ${reason}`, result);
}
