// Writes large and hostile databases through the runtime, with a model that replies at once. The servers of the tests
// open them afterwards.

import type { Adapter, FakeStep, Message } from "everturn";
import type { Runtime } from "everturn/runtime";

import { join } from "node:path";

import { engine, fake, tool, assistant, user } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

import { folder } from "./server.ts";

export type LargeDatabase = {
  readonly sessions: number;
  readonly messages: number;
  readonly steps: number;
};

/** The sessions of a large database with known ids. */
export const longConversation = "long-conversation";
export const longTurn = "long-turn";

const concurrency = 64;

/** Writes many sessions, one session with many messages, and one turn with many steps. */
export async function writeLargeDatabase(name: string, { sessions, messages, steps }: LargeDatabase): Promise<void> {
  const replying = engine({ adapter: replyWith(() => [{ type: "text", text: "Done." }]), model: "fake:fast" });
  await withRuntime(name, { default: replying, looping: loopingEngine(steps) }, async (runner) => {
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < sessions) {
        const number = (next += 1);
        const turn = await runner.start(`Question ${number}: what is the state of order ${1000 + number}?`, {
          id: `session-${number}`,
          engine: "default",
        });
        await turn.result;
      }
    };
    await Promise.all(Array.from({ length: concurrency }, work));
    const history = Array.from({ length: messages - 1 }, (_, index) => message(index));
    await (
      await runner.start(history, { id: longConversation, engine: "default", metadata: { title: "Long conversation" } })
    ).result;
    await (
      await runner.start("Work through the list.", {
        id: longTurn,
        engine: "looping",
        metadata: { title: "Long turn" },
      })
    ).result;
  });
}

function message(index: number): Message {
  if (index % 2 === 0) return user(`Message ${index}: how long does step ${index} take?`);
  const list = index % 10 === 1 ? "\n\n- first\n- second\n- third\n\n```ts\nconst answer = 6 * 7;\n```" : "";
  return assistant(
    `Step ${index} takes **${index % 60} s**. ${"It depends on the load of the machine. ".repeat(index % 4)}${list}`,
  );
}

/** Each model call but the last one calls a tool. */
function loopingEngine(steps: number) {
  const note = tool({
    name: "note",
    description: "Keeps a note.",
    schema: { type: "object" },
    replay: "safe",
    handler: () => "kept",
  });
  let calls = 0;
  const adapter = replyWith(() => {
    calls += 1;
    return calls < steps
      ? [
          { type: "text", text: `Step ${calls}.` },
          { type: "tool_call", name: "note", id: `call-${calls}`, arguments: { step: calls } },
        ]
      : [{ type: "text", text: "The list is done." }];
  });
  return engine({ adapter, model: "fake:looping", tools: [note], options: { maxTurns: steps } });
}

/** A model that plays a new script for each call. */
export function replyWith(script: () => readonly FakeStep[]): Adapter {
  return {
    provider: "fake",
    stream: (request, call) =>
      fake({ script: script(), usage: { inputTokens: 120, outputTokens: 12 } }).stream(request, call),
  };
}

/** Opens a database with engines, and closes it afterwards. */
export async function withRuntime(
  name: string,
  engines: Parameters<typeof runtime>[0]["engines"],
  use: (runner: Runtime) => Promise<void>,
): Promise<void> {
  const runner = runtime({ host: sqliteStorage({ path: join(folder, name) }), engines, durability: "durable" });
  try {
    await use(runner);
  } finally {
    await runner.close();
  }
}
