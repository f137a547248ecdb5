import type { TurnRecord } from "everturn/runtime";

import { offline, offlineTools } from "@everturn/server";
import { engine, fake, halt, tool } from "everturn";
import { inspection, readTurnRecord } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, it } from "vitest";

import { colours } from "../terminal/style.ts";
import { timelineText } from "./timeline-text.ts";

const agent = engine({ adapter: offline({ paceMs: 0 }), model: "offline:demo", tools: offlineTools({ paceMs: 0 }) });

async function recordOf(prompt: string, using = agent): Promise<TurnRecord> {
  const sessions = runtime({ host: memoryStorage(), engines: { default: using } });
  const turn = await sessions.start(prompt, { id: "s1" });
  await turn.result;
  return inspection(sessions.source).export("s1");
}

const lines = (record: TurnRecord, columns = Number.POSITIVE_INFINITY) =>
  timelineText({ record, timeline: readTurnRecord(record).timeline }, colours(false), columns);

describe("the timeline of a turn", () => {
  it("has one step for each reply, with the tool calls of the reply", async () => {
    const text = lines(await recordOf("clock, countdown"));
    const words = text.slice(2, -1).flatMap((line) => /[a-z]+(?: \d)?(?= {2})/.exec(line)?.[0] ?? []);
    expect(words).toEqual(["step 1", "clock", "countdown", "step 2"]);
  });

  it("shows attempts that failed before the recorded one", async () => {
    const scripts = [
      [{ type: "error", reason: "rate_limited", retryAfterMs: 1 } as const],
      [{ type: "text", text: "Hi." } as const],
    ];
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: fake({ scripts }), model: "fake:m", retry: { maxAttempts: 2 } }) },
    });
    await (
      await sessions.start("hi", { id: "s1" })
    ).result;
    const reader = inspection(sessions.source);
    const record = await reader.export("s1");
    const shown = { record, timeline: await reader.timeline("s1", record.data.turnId) };
    expect(timelineText(shown, colours(false), Number.POSITIVE_INFINITY)[2]).toMatch(/^│ {2}↻ retried after \d+ ms: /);
  });

  it("shows where another process continued", async () => {
    const record = await recordOf("clock");
    const second = record.data.rows.findLastIndex(({ effect }) => effect?.includes("call_model"));
    const rows = record.data.rows.map((row, index) => (index < second ? row : { ...row, epoch: row.epoch + 1 }));
    const text = lines({ ...record, data: { ...record.data, rows } }).join("\n");
    expect(text).toMatch(/\n│ {2}↻ another process continued from here\n├─ step 2 {2}offline:demo/);
    expect(text.match(/another process/g)).toHaveLength(1);
  });

  it("shows the number of the attempt", async () => {
    const record = await recordOf("clock");
    const rows = record.data.rows.map((row) => ({ ...row, attempt: 3 }));
    expect(lines({ ...record, data: { ...record.data, rows } }).join("\n")).toMatch(
      /offline:demo .* · attempt 3\n[\s\S]*clock .* · attempt 3/,
    );
  });

  it("shows the arguments that a tool ran with if an approval changed them", async () => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    await (
      await sessions.start('launch {"target": "Mars"}', { id: "s1" })
    ).result;
    const [call] = (await sessions.get("s1"))?.session.pendingToolCalls ?? [];
    const turn = await sessions.decide("s1", call?.id ?? "", { type: "approve", arguments: { target: "Venus" } });
    await turn.result;
    const text = lines(await inspection(sessions.source).export("s1")).join("\n");
    expect(text).toMatch(/launch .* ok .*\{"target":"Venus"\}/);
    expect(text).not.toContain("Mars");
    await sessions.close();
  });

  it("shows the message of a failed tool call", async () => {
    const schema = { type: "object" };
    const trip = tool({ name: "trip", description: "", schema, handler: () => Promise.reject(new Error("a stone")) });
    const text = lines(
      await recordOf("trip", engine({ adapter: offline({ paceMs: 0 }), model: "offline:demo", tools: [trip] })),
    );
    expect(text.join("\n")).toMatch(/trip +━+ +\d+ ms +failed +.*a stone/);
  });

  it("shows no escape sequence of a stored name: of a model or a reason", async () => {
    const red = "\u001B[31m";
    const call = { type: "tool_call", id: "c1", name: "stop", arguments: {} } as const;
    const stop = tool({
      name: "stop",
      description: "",
      schema: { type: "object" },
      handler: () => halt(`enough${red}`),
    });
    const record = await recordOf(
      "hi",
      engine({ adapter: fake({ script: [call] }), model: `fake:m${red}`, tools: [stop] }),
    );
    const text = lines(record).join("\n");
    expect(text).toContain("fake:m\u241B[31m");
    expect(text).toContain("enough\u241B[31m");
    expect(text).not.toContain("\u001B");
  });

  it("shows an open turn", async () => {
    const record = await recordOf("hello");
    const rows = record.data.rows.slice(0, 1);
    expect(lines({ ...record, data: { ...record.data, rows, end: null } }).at(-1)).toMatch(/^└─ open/);
  });

  it("explains that the journal of a turn has been deleted", async () => {
    const record = await recordOf("hello");
    expect(lines({ ...record, data: { ...record.data, rows: [] } })).toContain(
      "│ the journal of this turn has been deleted: its steps cannot be shown",
    );
  });

  it("replaces control characters of a reply, and fits the width of the terminal", async () => {
    const script = [{ type: "text", text: `\u001B[2J${"wide ".repeat(50)}` }] as const;
    const text = lines(await recordOf("hello", engine({ adapter: fake({ script }), model: "fake:m" })), 40);
    expect(text.join("\n")).toContain("» ␛[2Jwide wide");
    expect(Math.max(...text.map((line) => line.length))).toBeLessThanOrEqual(40);
  });

  it("shows tokens and cost", async () => {
    const usage = { inputTokens: 10, outputTokens: 5, totalCost: 0.0012 };
    const text = lines(
      await recordOf(
        "hello",
        engine({ adapter: fake({ script: [{ type: "text", text: "Hi." }], usage }), model: "fake:m" }),
      ),
    );
    expect(text.at(-1)).toBe("└─ completed  1 step · 10 in, 5 out, $0.0012");
  });
});
