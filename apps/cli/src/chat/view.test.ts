import type { FakeStep, Tool, TurnEvent } from "everturn";
import type { RuntimeEvent } from "everturn/runtime";

import { engine, fake, tool, assistant } from "everturn";
import { adapterFailure, chatResult, usage } from "everturn/advanced";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { colours } from "../terminal/style.ts";
import { ChatView } from "./view.ts";

const newView = (width = 80): ChatView => new ChatView({ width: () => width, colours: colours(false), since: 0 });

function runtimeEvent(event: TurnEvent, part: string | null = null, offset = 0): RuntimeEvent {
  const delta = part === null ? null : { attempt: { epoch: 1, n: 1 }, part, offset };
  return { cursor: "1", turnId: "t1", sequence: null, delta, event };
}

const text = (delta: string, offset = 0): RuntimeEvent =>
  runtimeEvent({ type: "text_delta", id: null, delta }, "text/0", offset);
const thought = (delta: string): RuntimeEvent =>
  runtimeEvent({ type: "reasoning_delta", id: null, delta }, "reasoning/0");
const ofAttempt = { effectId: null, attempt: { epoch: 1, n: 1 } };

function started(id: string, name = "weather"): RuntimeEvent {
  return runtimeEvent({ type: "tool_execution_started", id, name, arguments: { city: "Rome" }, ...ofAttempt });
}

function completed(id: string, name = "weather"): RuntimeEvent {
  const result = { type: "success", value: "sunny", control: null } as const;
  return runtimeEvent({ type: "tool_execution_completed", id, name, result, durationMs: 1500 });
}

function shown(view: ChatView, events: readonly RuntimeEvent[], now = 0): string {
  return events.map((event) => view.apply(event, now)).join("");
}

const weather = tool({
  name: "weather",
  description: "Tells the weather.",
  schema: { type: "object" },
  handler: ({ city }) => `sunny in ${String(city)}`,
});

const calls: readonly FakeStep[] = [
  { type: "reasoning", text: "They want the weather." },
  { type: "text", text: "Let me **look**.\n" },
  { type: "tool_call", name: "weather", arguments: { city: "Rome" } },
  { type: "tool_call", name: "weather", arguments: { city: "Oslo" } },
];

async function eventsOfTurn(
  scripts: readonly (readonly FakeStep[])[],
  tools: readonly Tool[],
): Promise<{ readonly live: readonly RuntimeEvent[]; readonly stored: readonly RuntimeEvent[] }> {
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const turn = await sessions.start("Weather?", { id: "s1" });
  const live: RuntimeEvent[] = [];
  for await (const event of turn.events) live.push(event);
  const stored: RuntimeEvent[] = [];
  for await (const event of sessions.events("s1", { follow: false })) stored.push(event);
  return { live, stored };
}

const untimed = (printed: string): string => printed.replaceAll(/\d+ ms/g, "N ms");

test("prints reasoning, text, one line for each tool, and the cost of a turn", async () => {
  const { live } = await eventsOfTurn([calls, [{ type: "text", text: "Sunny!" }]], [weather]);
  expect(untimed(shown(newView(), live))).toBe(
    [
      "",
      "They want the weather.",
      "",
      "Let me look.",
      "",
      "✓ weather city: Rome N ms → sunny in Rome",
      "✓ weather city: Oslo N ms → sunny in Oslo",
      "",
      "Sunny!",
      "",
      "2 steps · N ms",
      "",
    ].join("\n"),
  );
});

test("prints the same for stored events of a completed turn", async () => {
  const { live, stored } = await eventsOfTurn([calls, [{ type: "text", text: "Sunny!" }]], [weather]);
  expect(stored.some(({ event }) => event.type === "text_delta")).toBe(false);
  expect(untimed(shown(newView(), stored))).toBe(untimed(shown(newView(), live)));
});

test("prints text as it arrives", () => {
  const view = newView();
  expect(view.apply(text("Hel"), 0)).toBe("\nHel");
  expect(view.apply(text("lo", 3), 0)).toBe("lo");
});

test("shows a spinner while no text arrives, and none in the middle of a line", () => {
  const view = newView();
  expect(view.live(1500)).toEqual(["", "⠴ thinking 1.5 s"]);
  view.apply(text("Hello"), 1500);
  expect(view.live(1600)).toEqual([]);
  view.apply(runtimeEvent({ type: "tool_call_started", id: "c1", name: "weather", providerExecuted: false }), 2000);
  expect(view.live(2000)[1]).toContain("writing a call of weather");
});

test("shows one row for each parallel tool call, with time and progress", () => {
  const view = newView();
  shown(view, [started("c1"), started("c2", "search")], 1000);
  shown(
    view,
    [runtimeEvent({ type: "tool_progress", id: "c1", name: "weather", progress: { done: 2, total: 5 }, ...ofAttempt })],
    2000,
  );
  shown(
    view,
    [runtimeEvent({ type: "tool_progress", id: "c2", name: "search", progress: "reading", ...ofAttempt })],
    2000,
  );
  expect(view.live(3000)).toEqual(["", "⠋ weather city: Rome 2.0 s · 2 of 5", "⠋ search city: Rome 2.0 s · reading"]);
  expect(view.apply(completed("c2", "search"), 3000)).toBe("\n✓ search city: Rome 1.5 s → sunny\n");
  expect(view.live(3000)).toEqual(["⠋ weather city: Rome 2.0 s · 2 of 5"]);
});

test("limits the number of rows for parallel tool calls", () => {
  const view = newView();
  shown(
    view,
    Array.from({ length: 20 }, (_, index) => started(`c${index}`)),
  );
  expect(view.live(0)).toHaveLength(7);
  expect(view.live(0).at(-1)).toBe("  and 15 more");
});

test("fits the lines of tools to a narrow terminal", () => {
  const view = newView(20);
  view.apply(started("c1", "a_tool_with_a_long_name"), 0);
  expect(view.live(0)[1]).toBe("⠋ a_tool_with_a_lo…");
  expect(view.apply(completed("c1", "a_tool_with_a_long_name"), 0)).toBe("\n✓ a_tool_with_a_lon…\n");
});

test("tells the user to ignore the printed text when a step is reset", () => {
  const view = newView();
  view.apply(text("Half an ans"), 0);
  const reset = runtimeEvent({ type: "step_reset", reason: "recovery", withdrawn: [], ...ofAttempt });
  expect(view.apply(reset, 0)).toBe(
    "\n\n⟲ Ignore the text above: the process that ran the step stopped. The step starts\nagain.\n",
  );
  expect(view.apply(text("The whole answer."), 0)).toBe("\nThe whole answer.");
});

test("does not mention earlier text when a step without output is reset", () => {
  const reset = runtimeEvent({ type: "step_reset", reason: "fallback", withdrawn: [], ...ofAttempt });
  expect(newView().apply(reset, 0)).not.toContain("Ignore");
});

test("prints the reason and the delay of a retry", () => {
  const error = adapterFailure("rate_limited", { provider: "openai", status: 429, retryable: true });
  const retry = runtimeEvent({ type: "retry_scheduled", maxAttempts: 4, delayMs: 1500, error, ...ofAttempt });
  expect(newView().apply(retry, 0)).toBe("\n↻ adapter error (openai): rate_limited; retry in 1.5 s (2 of 4)\n");
});

test("prints a warning once", () => {
  const view = newView();
  const warning = { reason: "unsupported", path: "seed", message: "seed is not sent: the API has no seed" } as const;
  expect(view.apply(runtimeEvent({ type: "warning", warning }), 0)).toBe("\n! seed is not sent: the API has no seed\n");
  expect(view.apply(runtimeEvent({ type: "warning", warning }), 0)).toBe("");
});

test("prints a failure once", () => {
  const view = newView();
  const failure = adapterFailure("invalid_request", { message: "no such model" });
  const result = chatResult({ type: "provider_error", failure }, { usage: usage({ inputTokens: 3 }) });
  expect(view.apply(runtimeEvent({ type: "error", error: failure }), 0)).toBe("\n✗ no such model\n");
  expect(view.apply(runtimeEvent({ type: "chat_completed", result }), 1000)).toBe("3 in, 0 out · 1.0 s\n");
  expect(view.isOver).toBe(true);
  expect(view.live(2000)).toEqual([]);
});

test("prints a note below the text of a cancelled turn", () => {
  const view = newView();
  view.apply(text("Half"), 0);
  const evidence = { requestId: "r", origin: null, reason: null };
  const result = chatResult({ type: "cancelled", evidence });
  expect(view.apply(runtimeEvent({ type: "chat_completed", result }), 0)).toBe(
    "\n\n■ Cancelled. The text so far is kept.\n0 ms\n",
  );
});

test("separates dim reasoning from text", () => {
  const view = new ChatView({ width: () => 80, colours: colours(true), since: 0 });
  expect(shown(view, [thought("Hm."), text("Yes.")])).toBe("\n\u001B[2;3mHm.\u001B[0m\n\nYes.");
});

test("replaces control characters of models and tools (terminal escape injection)", () => {
  const evil = "\u001B]0;x\u0007\u001B[2J\u202E";
  const view = newView();
  const events = [
    text(evil),
    thought(evil),
    started("c1", evil),
    runtimeEvent({ type: "tool_progress", id: "c1", name: evil, progress: evil, ...ofAttempt }),
    completed("c1", evil),
    runtimeEvent({ type: "error", error: adapterFailure("unknown", { message: evil }) }),
    runtimeEvent({ type: "message_completed", ...completion(evil) }),
  ];
  const printed = events.map((event) => view.apply(event, 0) + view.live(0).join("")).join("") + view.close();
  expect(printed).not.toMatch(/[^\P{Cc}\n]|\u202E/u);
});

function completion(content: string): Omit<Extract<TurnEvent, { type: "message_completed" }>, "type"> {
  const none = { rawFinishReason: null, requestId: null, responseId: null, model: null, route: null, output: null };
  return { message: assistant(content), finishReason: "stop", ...none, metadata: {} };
}
