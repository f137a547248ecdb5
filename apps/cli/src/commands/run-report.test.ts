import type { Io } from "./io.ts";
import type { RunRequest } from "./run.ts";
import type { RuntimeEvent } from "everturn/runtime";

import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { colours } from "../terminal/style.ts";
import { eventPrinter } from "./run-report.ts";

const request: RunRequest = {
  words: [],
  session: null,
  schema: null,
  repair: 0,
  form: "text",
  quiet: true,
  readsStdin: false,
  decision: null,
};

/** The text on standard output for these events. */
function printed(events: readonly RuntimeEvent[]): string {
  let text = "";
  const output = { isTerminal: false, columns: 80, write: (more: string) => void (text += more) };
  const io: Io = {
    environment: {},
    folder: "/",
    stdin: async () => "",
    stdout: output,
    stderr: { ...output, write: () => undefined },
    onInterrupt: () => () => undefined,
    onTerminate: () => () => undefined,
    exit: () => undefined,
  };
  const { event, end } = eventPrinter(io, colours(false), request);
  for (const runtimeEvent of events) event(runtimeEvent);
  end();
  return text;
}

test("prints a complete reply once, with and without its deltas", async () => {
  const pieces = ["Still ", "here."].map((text) => ({ type: "text", text }) as const);
  const agent = engine({ adapter: fake({ script: pieces }), model: "fake:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const turn = await sessions.start("Are you there?", { id: "s1" });
  const live: RuntimeEvent[] = [];
  for await (const event of turn.events) live.push(event);
  const stored: RuntimeEvent[] = [];
  for await (const event of sessions.events("s1", { follow: false })) stored.push(event);
  expect(live.some(({ event }) => event.type === "text_delta")).toBe(true);
  expect(stored.some(({ event }) => event.type === "text_delta")).toBe(false);
  expect([printed(live), printed(stored)]).toEqual(["Still here.\n", "Still here.\n"]);
  await sessions.close();
});
