// Replay files: records of real turns, which a runtime in memory exports, and damaged ones.

import type { Message } from "everturn";

import { engine, fake, tool } from "everturn";
import { inspection } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { beforeAll, describe, expect, test } from "vitest";

import { layoutOf } from "../../../lib/src/serve/react/timeline/layout.ts";
import { readReplayFile, ReplayFileError } from "../src/replay/record.ts";
import { conversationAt } from "../src/timeline/state-at.ts";

const call = (id: string, name: string) => ({ type: "tool_call", id, name, arguments: { order: 1042 } }) as const;
const schema = { type: "object" };
const tools = [
  tool({ name: "find_order", description: "Finds an order.", schema, handler: () => ({ paid: 189 }) }),
  tool({
    name: "track_parcel",
    description: "Tracks a parcel.",
    schema,
    replay: "safe",
    handler: () => {
      throw new Error("the carrier does not answer");
    },
  }),
  tool({ name: "refund", description: "Refunds.", schema, needsApproval: true, replay: "ask", handler: () => "done" }),
];

let text = "";
let stored: readonly Message[] = [];

beforeAll(async () => {
  const scripts = [
    [{ type: "text", text: "Let me look." } as const, call("c1", "find_order"), call("c2", "track_parcel")],
    [{ type: "text", text: "I ask for an approval." } as const, call("c3", "refund")],
  ];
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools });
  const sessions = runtime({ host: memoryStorage(), engines: { support: agent } });
  const turn = await sessions.start("Order 1042 came broken.", { id: "s1", engine: "support" });
  await turn.result;
  text = JSON.stringify(await inspection(sessions.source).export("s1"));
  stored = (await sessions.get("s1"))?.session.thread.messages ?? [];
  await sessions.close();
});

describe("a record of a real turn", () => {
  test("has a bar for each effect, with names, states and the wait for a person", () => {
    const { timeline } = readReplayFile(text);
    const { lanes, totals } = layoutOf(timeline);
    expect(lanes.map(({ label }) => label)).toEqual(["model", "find_order", "track_parcel", "person"]);
    expect(totals.steps).toBe(2);
    const states = timeline.effects.filter(({ kind }) => kind === "tool").map(({ name, state }) => [name, state]);
    expect(states.toSorted()).toEqual([
      ["find_order", "ok"],
      ["refund", "waits"],
      ["track_parcel", "failed"],
    ]);
    expect(timeline.effects.find(({ name }) => name === "track_parcel")?.failure?.message).toContain("carrier");
    expect(timeline.turn.end?.outcome.type).toBe("approval");
    expect(timeline.claims).toHaveLength(1);
  });

  test("has the messages, and the conversation at a moment is a prefix of them", () => {
    const { timeline, messages } = readReplayFile(text);
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "tool", "assistant"]);
    const ofTurn = messages.slice(timeline.turn.base);
    expect(conversationAt(timeline, ofTurn, 3_600_000).length).toBe(messages.length);
  });

  test("has the messages that the session has stored", () => {
    // The ids are those of stored entries, which a record does not have.
    const withoutIds = (messages: readonly Message[]) => messages.map((message) => ({ ...message, id: null }));
    expect(withoutIds(readReplayFile(text).messages)).toEqual(withoutIds(stored));
  });

  test("has the stored data of each row, and the replay policies of the tools", () => {
    const { details, policies } = readReplayFile(text);
    expect(details.get(1)?.item).toMatchObject({ type: "response" });
    expect(Object.fromEntries(policies)).toEqual({ find_order: "never", track_parcel: "safe", refund: "ask" });
  });
});

describe("other files are rejected with a reason", () => {
  const damaged = (change: (record: { data: { [name: string]: unknown } }) => void): string => {
    const record: { everturn: string; version: number; data: { [name: string]: unknown } } = JSON.parse(text);
    change(record);
    return JSON.stringify(record);
  };
  const withEffect = (effect: string) => (record: { data: { [name: string]: unknown } }) => {
    const { rows } = record.data;
    record.data["rows"] = Array.isArray(rows) ? rows.map((row: object) => ({ ...row, effect })) : rows;
  };
  test.each([
    ["not JSON", () => "PK\u0003\u0004", /not JSON/],
    ["other JSON", () => '{"messages":[]}', /not a turn record/],
    ["a list", () => "[1]", /not a turn record/],
    ["a newer version", () => '{"everturn":"turn_record","version":99,"data":{}}', /newer release/],
    ["no data", () => '{"everturn":"turn_record","version":4}', /not a turn record/],
    ["no start", () => damaged(({ data }) => delete data["start"]), /start: must be/],
    ["a damaged row", () => damaged(({ data }) => (data["rows"] = [{ effect: "{", item: {} }])), /rows\[0\]\.item/],
    ["an effect that is not JSON", () => damaged(withEffect("{")), /effect of row 1 is not JSON/],
    ["an effect without an id", () => damaged(withEffect('{"type":"call_tool"}')), /effect of row 1 is damaged/],
    ["a row without item", () => damaged(({ data }) => (data["rows"] = [7])), /rows\[0\]: must be an object/],
    ["a damaged message", () => damaged(({ data }) => (data["history"] = [{ role: "king" }])), /history\[0\]\.role/],
  ])("%s", (_, content, reason) => {
    expect(() => readReplayFile(content())).toThrow(ReplayFileError);
    expect(() => readReplayFile(content())).toThrow(reason);
  });
});
