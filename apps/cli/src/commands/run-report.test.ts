import type { Io } from "./io.ts";
import type { RunRequest } from "./run.ts";
import type { RuntimeEvent } from "everturn/runtime";

import { engine, fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
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

/** The text on standard output and on standard error for these events. */
function written(
  events: readonly RuntimeEvent[],
  given: RunRequest,
): { readonly stdout: string; readonly stderr: string } {
  const text = { stdout: "", stderr: "" };
  const output = { isTerminal: false, columns: 80, write: (more: string) => void (text.stdout += more) };
  const io: Io = {
    environment: {},
    folder: "/",
    stdin: async () => "",
    stdout: output,
    stderr: { ...output, write: (more) => void (text.stderr += more) },
    onInterrupt: () => () => undefined,
    onTerminate: () => () => undefined,
    confirm: null,
    openBrowser: () => undefined,
    exit: () => undefined,
  };
  const { event, end } = eventPrinter(io, colours(false), given);
  for (const runtimeEvent of events) event(runtimeEvent);
  end();
  return text;
}

const printed = (events: readonly RuntimeEvent[]): string => written(events, request).stdout;

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

test("prints a warning once on standard error, unless it is to be quiet", () => {
  const warning = { reason: "unsupported", path: "seed", message: "seed is not sent: the API has no seed" } as const;
  const event: RuntimeEvent = {
    cursor: "1",
    turnId: "t1",
    sequence: 1,
    delta: null,
    event: { type: "warning", warning },
  };
  const { stderr } = written([event, event], { ...request, quiet: false });
  expect(stderr).toBe("! seed is not sent: the API has no seed\n");
  expect(written([event], request).stderr).toBe("");
});
