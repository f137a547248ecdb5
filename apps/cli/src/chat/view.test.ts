import type { FakeStep, Tool } from "everturn";
import type { TurnEvent } from "everturn/model";
import type { RuntimeEvent } from "everturn/runtime";

import { engine, fake, tool } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { adapterFailure, assistant, chatResult, usage } from "everturn/model";
import { runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { colours } from "../terminal/style.ts";
import { ChatView } from "./view.ts";

const newView = (width = 80): ChatView => new ChatView({ width: () => width, colours: colours(false), since: 0 });

function heard(event: TurnEvent, part: string | null = null): RuntimeEvent {
  const delta = part === null ? null : { attempt: { epoch: 1, n: 1 }, part, offset: 0 };
  return { cursor: "1", turnId: "t1", sequence: null, delta, event };
}

const text = (delta: string): RuntimeEvent => heard({ type: "text_delta", id: null, delta }, "text/0");
const thought = (delta: string): RuntimeEvent => heard({ type: "reasoning_delta", id: null, delta }, "reasoning/0");
const ofAttempt = { effectId: null, attempt: { epoch: 1, n: 1 } };

function started(id: string, name = "weather"): RuntimeEvent {
  return heard({ type: "tool_execution_started", id, name, arguments: { city: "Rome" }, ...ofAttempt });
}

function completed(id: string, name = "weather"): RuntimeEvent {
  const result = { type: "success", value: "sunny", control: null } as const;
  return heard({ type: "tool_execution_completed", id, name, result, durationMs: 1500 });
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

test("a turn is its thoughts, its text, a line for each tool, and what it cost", async () => {
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

test("whoever comes when it is over is shown the same", async () => {
  const { live, stored } = await eventsOfTurn([calls, [{ type: "text", text: "Sunny!" }]], [weather]);
  expect(stored.some(({ event }) => event.type === "text_delta")).toBe(false);
  expect(untimed(shown(newView(), stored))).toBe(untimed(shown(newView(), live)));
});

test("text is shown as it comes", () => {
  const view = newView();
  expect(view.apply(text("Hel"), 0)).toBe("\nHel");
  expect(view.apply(text("lo"), 0)).toBe("lo");
});

test("while nothing is said something turns, and while text is in the middle of a line nothing does", () => {
  const view = newView();
  expect(view.live(1500)).toEqual(["", "⠴ thinking 1.5 s"]);
  view.apply(text("Hello"), 1500);
  expect(view.live(1600)).toEqual([]);
  view.apply(heard({ type: "tool_call_started", id: "c1", name: "weather", providerExecuted: false }), 2000);
  expect(view.live(2000)[1]).toContain("writing a call of weather");
});

test("tools that run side by side have a row each, with their time and how far they are", () => {
  const view = newView();
  shown(view, [started("c1"), started("c2", "search")], 1000);
  shown(
    view,
    [heard({ type: "tool_progress", id: "c1", name: "weather", progress: { done: 2, total: 5 }, ...ofAttempt })],
    2000,
  );
  shown(view, [heard({ type: "tool_progress", id: "c2", name: "search", progress: "reading", ...ofAttempt })], 2000);
  expect(view.live(3000)).toEqual(["", "⠋ weather city: Rome 2.0 s · 2 of 5", "⠋ search city: Rome 2.0 s · reading"]);
  expect(view.apply(completed("c2", "search"), 3000)).toBe("\n✓ search city: Rome 1.5 s → sunny\n");
  expect(view.live(3000)).toEqual(["⠋ weather city: Rome 2.0 s · 2 of 5"]);
});

test("many tools at once do not fill the screen", () => {
  const view = newView();
  shown(
    view,
    Array.from({ length: 20 }, (_, index) => started(`c${index}`)),
  );
  expect(view.live(0)).toHaveLength(7);
  expect(view.live(0).at(-1)).toBe("  and 15 more");
});

test("rows and lines of tools fit a narrow terminal", () => {
  const view = newView(20);
  view.apply(started("c1", "a_tool_with_a_long_name"), 0);
  expect(view.live(0)[1]).toBe("⠋ a_tool_with_a_lo…");
  expect(view.apply(completed("c1", "a_tool_with_a_long_name"), 0)).toBe("\n✓ a_tool_with_a_lon…\n");
});

test("when a step is reset, what is on the screen is said to be void", () => {
  const view = newView();
  view.apply(text("Half an ans"), 0);
  const reset = heard({ type: "step_reset", reason: "recovery", withdrawn: [], ...ofAttempt });
  expect(view.apply(reset, 0)).toBe(
    "\n\n⟲ The text above is void: the process that ran it stopped. The step begins\nagain.\n",
  );
  expect(view.apply(text("The whole answer."), 0)).toBe("\nThe whole answer.");
});

test("a reset of a step nobody saw anything of makes nothing void", () => {
  const reset = heard({ type: "step_reset", reason: "fallback", withdrawn: [], ...ofAttempt });
  expect(newView().apply(reset, 0)).not.toContain("void");
});

test("a retry says why and when", () => {
  const error = adapterFailure("rate_limited", { provider: "openai", status: 429, retryable: true });
  const retry = heard({ type: "retry_scheduled", maxAttempts: 4, delayMs: 1500, error, ...ofAttempt });
  expect(newView().apply(retry, 0)).toBe("\n↻ adapter error (openai): rate_limited; trying again in 1.5 s (2 of 4)\n");
});

test("a failure is told once", () => {
  const view = newView();
  const failure = adapterFailure("invalid_request", { message: "no such model" });
  const result = chatResult({ type: "provider_error", failure }, { usage: usage({ inputTokens: 3 }) });
  expect(view.apply(heard({ type: "error", error: failure }), 0)).toBe("\n✗ no such model\n");
  expect(view.apply(heard({ type: "chat_completed", result }), 1000)).toBe("3 in, 0 out · 1.0 s\n");
  expect(view.isOver).toBe(true);
  expect(view.live(2000)).toEqual([]);
});

test("a turn that was cancelled says so, below what it had said", () => {
  const view = newView();
  view.apply(text("Half"), 0);
  const evidence = { requestId: "r", origin: null, reason: null };
  const result = chatResult({ type: "cancelled", evidence });
  expect(view.apply(heard({ type: "chat_completed", result }), 0)).toBe(
    "\n\n■ Cancelled. What was said so far is kept.\n0 ms\n",
  );
});

test("thoughts and text are set apart, and thoughts are dim", () => {
  const view = new ChatView({ width: () => 80, colours: colours(true), since: 0 });
  expect(shown(view, [thought("Hm."), text("Yes.")])).toBe("\n\u001B[2;3mHm.\u001B[0m\n\nYes.");
});

test("nothing a model or a tool says reaches the terminal as a command", () => {
  const evil = "\u001B]0;x\u0007\u001B[2J\u202E";
  const view = newView();
  const said = [
    text(evil),
    thought(evil),
    started("c1", evil),
    heard({ type: "tool_progress", id: "c1", name: evil, progress: evil, ...ofAttempt }),
    completed("c1", evil),
    heard({ type: "error", error: adapterFailure("unknown", { message: evil }) }),
    heard({ type: "message_completed", ...completion(evil) }),
  ];
  const printed = said.map((event) => view.apply(event, 0) + view.live(0).join("")).join("") + view.close();
  expect(printed).not.toMatch(/[^\P{Cc}\n]|\u202E/u);
});

function completion(content: string): Omit<Extract<TurnEvent, { type: "message_completed" }>, "type"> {
  const none = { rawFinishReason: null, requestId: null, responseId: null, model: null, route: null, output: null };
  return { message: assistant(content), finishReason: "stop", ...none, metadata: {} };
}
