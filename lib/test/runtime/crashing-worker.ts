// A program for tests of takeovers: a worker over the SQLite file of its first argument. The engine `healthy` has a
// tool that takes a while, and the engine `deadly` one that kills its process. Each prints its name when it is run.
//
// The second argument is the number of turns beside the deadly one that have to be open in the process before it is
// killed; `0`: it is killed at once. While that number is not 0, the healthy tool never ends, so that the process is
// killed in the middle of all of them.

import { setTimeout as delay } from "node:timers/promises";

import { engine, fake, tool } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

const [, , path = "", wanted = "0"] = process.argv;

/** Longer than the jitter of the first backoff, so that turns which come together overlap. */
const healthyMs = 400;

let open = 0;
const opened: { readonly count: number; readonly resolve: () => void }[] = [];

/** Resolves when so many runs of the healthy tool are open. */
function untilOpen(count: number): Promise<void> {
  return new Promise((resolve) => {
    if (open >= count) resolve();
    else opened.push({ count, resolve });
  });
}

const agent = (name: string, handler: () => Promise<string>) =>
  engine({
    adapter: {
      provider: "fake",
      stream: (request, call) => {
        const isDone = request.messages.at(-1)?.role === "tool";
        return fake({ script: [isDone ? { type: "text", text: "Done." } : { type: "tool_call", name }] }).stream(
          request,
          call,
        );
      },
    },
    model: "fake:m",
    tools: [
      tool({
        name,
        description: "Works.",
        schema: { type: "object" },
        replay: "safe",
        handler: () => {
          process.stdout.write(`${name}\n`);
          return handler();
        },
      }),
    ],
  });

const healthy = agent("healthy", async () => {
  open += 1;
  for (const { count, resolve } of opened) if (open >= count) resolve();
  if (wanted !== "0") await new Promise<never>(() => undefined);
  await delay(healthyMs);
  return "done";
});

const deadly = agent("deadly", async () => {
  await untilOpen(Number(wanted));
  process.kill(process.pid, "SIGKILL");
  return "never";
});

const sessions = runtime({
  host: sqliteStorage({ path }),
  engines: { healthy, deadly },
  lease: { ttlMs: 2000, renewMs: 500 },
  maxTakeovers: 3,
});
await sessions.work({ signal: new AbortController().signal });
