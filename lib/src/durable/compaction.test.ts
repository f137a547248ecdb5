// Compaction of durable sessions: frames are entries beside the messages, one for each summary, and what a turn was
// accepted with decides its requests in every process.

import type { HostStorage } from "./rows/storage.ts";
import type { Adapter, Engine, FakeScript, ContextPolicy, ModelRequest } from "everturn";

import { engine, fake, tool, messageText, user } from "everturn";
import { inspection } from "everturn/http";
import { memoryStorage, finalizeStorage, replayTurn, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { summaryPrompt } from "../core/kernel/internal.ts";
import { leasePut } from "./rows/lease.ts";
import { readValue } from "./rows/stored.ts";

const isSummary = ({ messages }: ModelRequest): boolean =>
  messageText(messages.at(-1) ?? user("")).startsWith(summaryPrompt);

/** A model that calls `look` for each message of the user, and answers. It counts four characters as a token. */
function model(
  requests: ModelRequest[],
  summary: () => FakeScript | null = () => [{ type: "text", text: "It was sunny." }],
): Adapter {
  return {
    provider: "fake",
    stream: (request, call) => {
      requests.push(request);
      const last = request.messages.at(-1);
      const size = request.messages.reduce((sum, message) => sum + messageText(message).length, 0);
      const usage = { inputTokens: Math.ceil(size / 4), outputTokens: 1 };
      const script: FakeScript | null = isSummary(request)
        ? summary()
        : last?.role === "tool"
          ? [{ type: "text", text: "Seen." }]
          : [{ type: "tool_call", name: "look", id: `c${requests.length}` }];
      return script === null ? never() : fake({ script, usage }).stream(request, call);
    },
  };
}

/** A stream that hangs. */
const never = (): AsyncIterable<never> => ({
  [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }),
});

const look = tool({
  name: "look",
  description: "Looks.",
  schema: { type: "object" },
  replay: "safe",
  handler: () => "seen ".repeat(120),
});

function agent(adapter: Adapter, policy: ContextPolicy = {}): Engine {
  const contextPolicy = { window: 1_000, reserve: 100, keepRecent: 200, prune: false, ...policy } as const;
  return engine({ adapter, model: "fake:m", tools: [look], contextPolicy });
}

/** Runs these turns in session `s`. */
async function run(host: HostStorage, of: Engine, count: number, first = 0): Promise<void> {
  const sessions = runtime({ host, engines: { default: of } });
  for (let turn = first; turn < first + count; turn += 1) {
    const text = `Look ${turn}.`;
    const { result } = turn === 0 ? await sessions.start(text, { id: "s" }) : await sessions.reply("s", text);
    expect((await result).haltedReason).toBe("completed");
  }
  await sessions.close();
}

async function framesOf(host: HostStorage, session = "s") {
  const [rows = []] = await host.read([{ table: "frames", prefix: ["", session] }]);
  return rows.map((row) => ({ position: row.key[2], frame: readValue("frames", row) }));
}

test("each summary makes one frame, which is an entry beside the messages", async () => {
  const host = memoryStorage();
  const requests: ModelRequest[] = [];
  await run(host, agent(model(requests)), 16);
  const frames = await framesOf(host);
  expect(frames.length).toBeGreaterThan(1);
  expect(frames).toHaveLength(requests.filter(isSummary).length);
  for (const { position, frame } of frames) {
    expect([position, frame.summary]).toEqual([frame.to, "It was sunny."]);
  }
  const sessions = runtime({ host, engines: { default: agent(model([])) } });
  const view = await sessions.get("s");
  expect(view?.session.thread.messages).toHaveLength(64);
  expect(view?.session.contextWindow?.frame).toEqual(frames.at(-1)?.frame);
  expect(requests.at(-1)?.scope?.frameId).toBe(frames.at(-1)?.frame.id);
  await sessions.delete("s");
  expect(await framesOf(host)).toEqual([]);
});

test("a replay of a turn after a frame builds the same effects, and the effects name the frame", async () => {
  const host = memoryStorage();
  const sessions = runtime({ host, engines: { default: agent(model([])) } });
  await run(host, agent(model([])), 12);
  const turn = await sessions.reply("s", "Look again.");
  await turn.result;
  const record = await inspection(sessions.source).export("s");
  expect((await replayTurn(record)).result.haltedReason).toBe("completed");
  const [frame] = (await framesOf(host)).toReversed();
  const named = record.data.rows.flatMap(({ effect }) => (effect === null ? [] : [JSON.parse(effect)]));
  expect(named.filter(({ type }) => type === "call_model").at(-1).sent.frame).toBe(frame?.frame.id);
});

test("a summary that two processes could not record is not requested a third time", async () => {
  const host = memoryStorage();
  const before: ModelRequest[] = [];
  await run(host, agent(model(before)), 4);
  expect(before.filter(isSummary)).toEqual([]);
  const hanging: ModelRequest[] = [];
  // The session has a turn that hangs in its summary; each process is stopped there.
  const first = runtime({ host, engines: { default: agent(model(hanging, () => null)) } });
  let turn = 4;
  await first.reply("s", `Look ${turn}.`);
  await expect
    .poll(async () => {
      if (hanging.some(isSummary)) return true;
      if ((await first.get("s"))?.openTurn === null) {
        turn += 1;
        await first.reply("s", `Look ${turn}.`);
      }
      return false;
    })
    .toBe(true);
  await first.close({ graceMs: 0 });
  const second = runtime({ host, engines: { default: agent(model(hanging, () => null)) } });
  await second.recover();
  await expect.poll(() => hanging.filter(isSummary).length).toBe(2);
  await second.close({ graceMs: 0 });
  const requests: ModelRequest[] = [];
  const third = runtime({ host, engines: { default: agent(model(requests)) } });
  await third.recover();
  await expect.poll(async () => (await third.get("s"))?.openTurn ?? null).toBeNull();
  expect((await third.get("s"))?.session.status).toBe("completed");
  expect(requests.filter(isSummary)).toEqual([]);
  await third.close();
});

test("before the database is finalized turns have no context limits, so that the release before can continue them", async () => {
  const durable: HostStorage = { ...memoryStorage(), durability: "durable" };
  const lease = { process: null, token: 1, ttlMs: 0, owner: "a process of the release before" };
  await durable.write({ checks: [], removals: [], puts: [leasePut(["", "other"], lease)] });
  const requests: ModelRequest[] = [];
  await run(durable, agent(model(requests)), 10);
  expect(requests.filter(isSummary)).toEqual([]);
  expect(await framesOf(durable)).toEqual([]);
  const [starts = []] = await durable.read([{ table: "starts", prefix: ["", "s"] }]);
  expect(new Set(starts.map((row) => readValue("starts", row).revision))).toEqual(new Set([3]));
  expect((await finalizeStorage(durable)).status).toBe("finalized");
  await run(durable, agent(model(requests)), 3, 10);
  expect(requests.some(isSummary)).toBe(true);
});

test("a fork continues with the frame, and a fork before it with the whole history", async () => {
  const host = memoryStorage();
  await run(host, agent(model([])), 12);
  const requests: ModelRequest[] = [];
  const sessions = runtime({ host, engines: { default: agent(model(requests)) } });
  const frame = (await framesOf(host)).at(-1)?.frame;
  await sessions.fork("s", { id: "whole" });
  expect((await sessions.get("whole"))?.session.contextWindow?.frame).toEqual(frame);
  expect((await framesOf(host, "whole")).map((row) => row.frame)).toEqual([frame]);
  await sessions.fork("s", { id: "early", at: 4 });
  expect((await sessions.get("early"))?.session.contextWindow).toBeNull();
  await (
    await sessions.reply("whole", "Look again.")
  ).result;
  expect(requests[0]?.scope?.frameId).toBe(frame?.id);
});
