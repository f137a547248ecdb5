// The cost of middleware in a run in memory: a reply of many deltas, with no middleware, with an empty list, and with
// middleware that passes calls on.

import type { Adapter, Engine } from "everturn";
import type { ModelEvent } from "everturn/advanced";
import type { Middleware } from "everturn/middleware";

import { chat, engine } from "everturn";
import { replyEvents } from "everturn/middleware";

import { compareAsync, print } from "./measure.ts";

const deltas = 200;

/** An adapter that yields one batch for each delta, without waiting. */
const adapter: Adapter = {
  provider: "bench",
  async *stream() {
    const [started, , completed, ended] = replyEvents("word ".repeat(deltas));
    const delta: ModelEvent = { type: "text_delta", id: null, delta: "word " };
    if (started !== undefined) yield [started];
    for (let n = 0; n < deltas; n += 1) yield [delta];
    for (const event of [completed, ended]) if (event !== undefined) yield [event];
  },
};

function passing(name: string): Middleware {
  return { name, model: ({ request }, next) => next(request) };
}

/** Runs 20 turns. */
async function turns(agent: Engine): Promise<void> {
  for (let n = 0; n < 20; n += 1) await chat(agent, "hi");
}

export async function benchMiddleware(): Promise<void> {
  const base = { adapter, model: "m" };
  const toolsOnly: Middleware = { name: "tools", tool: (call, next) => next(call.arguments) };
  const contenders = [
    { name: "no middleware", agent: engine(base) },
    { name: "an empty list", agent: engine({ ...base, middleware: [] }) },
    { name: "one for tools only", agent: engine({ ...base, middleware: [toolsOnly] }) },
    { name: "one that passes model calls on", agent: engine({ ...base, middleware: [passing("a")] }) },
    {
      name: "four that pass model calls on",
      agent: engine({ ...base, middleware: ["a", "b", "c", "d"].map(passing) }),
    },
  ];
  print(
    `20 turns in memory, each with a reply of ${deltas} deltas`,
    await compareAsync(contenders.map(({ name, agent }) => ({ name, run: () => turns(agent) }))),
  );
}
