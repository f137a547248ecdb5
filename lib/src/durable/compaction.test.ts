// Compaction of durable sessions: frames are entries beside the messages, one for each summary, and what a turn was
// accepted with decides its requests in every process.

import type { HostStorage } from "./rows/storage.ts";
import type { Adapter, Engine, FakeScript, ContextPolicy, ModelRequest } from "everturn";

import { compactTool, engine, fake, tool, messageText, user } from "everturn";
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

test("the usage of summaries is reported apart: in the ledger, and in the context window", async () => {
  const host = memoryStorage();
  const requests: ModelRequest[] = [];
  const of = agent(model(requests));
  await run(host, of, 16);
  const sessions = runtime({ host, engines: { default: of } });
  const { lines, total } = await sessions.usage("s");
  const inputOf = (isSummed: (request: ModelRequest) => boolean): number =>
    requests
      .filter(isSummed)
      .reduce((sum, { messages }) => sum + Math.ceil(messages.map(messageText).join("").length / 4), 0);
  const apart = Object.fromEntries(lines.map(({ source, usage }) => [source, usage.inputTokens]));
  expect(apart).toEqual({ model: inputOf((request) => !isSummary(request)), summary: inputOf(isSummary) });
  const session = (await sessions.get("s"))?.session;
  expect(session?.contextWindow?.summaryUsage.inputTokens).toBe(apart["summary"]);
  expect(session?.usage.inputTokens).toBe(total.inputTokens);
  // Undo takes the frame back, and not what its summary has cost. A fork has not used anything.
  await sessions.undoCompaction("s");
  expect((await sessions.get("s"))?.session.contextWindow?.summaryUsage.inputTokens).toBe(apart["summary"]);
  await sessions.fork("s", { id: "copy" });
  expect((await sessions.get("copy"))?.session.contextWindow?.summaryUsage.inputTokens ?? null).toBeNull();
  await sessions.close();
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

/** The last request before its model call, as text. */
const textOf = (request: ModelRequest | undefined): string => request?.messages.map(messageText).join("\n") ?? "";

/** A session of a few turns, whose requests are far from the limits, and the runtime that continues it. */
async function shortSession(host: HostStorage, requests: ModelRequest[], turns = 3) {
  const policy = { window: 100_000, reserve: 1_000, keepRecent: 20_000 };
  await run(host, agent(model([]), policy), turns);
  return runtime({ host, engines: { default: agent(model(requests), policy) } });
}

test("compact is followed by one summary before the next model call, with what to keep", async () => {
  const host = memoryStorage();
  const requests: ModelRequest[] = [];
  const sessions = await shortSession(host, requests);
  expect(await sessions.compact("s", { instructions: "Keep the weather." })).toEqual({
    frame: null,
    requested: { instructions: "Keep the weather." },
  });
  expect(requests).toEqual([]);
  await (
    await sessions.reply("s", "Look again.")
  ).result;
  expect(requests.map(isSummary)).toEqual([true, false, false]);
  expect(textOf(requests[0])).toContain("Keep the weather.");
  expect(textOf(requests[1])).toContain("It was sunny.");
  expect(textOf(requests[1])).not.toContain("Look 0.");
  expect(textOf(requests[1])).toContain("Look again.");
  const { items } = await sessions.frames("s");
  expect(items.map(({ summary }) => summary)).toEqual(["It was sunny."]);
  expect((await sessions.get("s"))?.session.contextWindow).toMatchObject({ frame: items[0], requested: null });
  // The next turn is not compacted again.
  await (
    await sessions.reply("s", "And again.")
  ).result;
  expect(requests.filter(isSummary)).toHaveLength(1);
});

test("undoCompaction takes the newest frame back, and the next request contains the frame before it, then all messages", async () => {
  const host = memoryStorage();
  const requests: ModelRequest[] = [];
  const sessions = await shortSession(host, requests);
  const compactAndReply = async (text: string) => {
    await sessions.compact("s");
    await (
      await sessions.reply("s", text)
    ).result;
  };
  await compactAndReply("Look 3.");
  await compactAndReply("Look 4.");
  const [first, second] = (await sessions.frames("s")).items;
  await expect(sessions.undoCompaction("s", { frame: first?.id ?? "" })).rejects.toMatchObject({
    reason: "conflict",
    message: expect.stringContaining(`the newest frame of session s is ${second?.id}`),
  });
  // A call that is repeated with its key takes one frame back.
  for (const _ of [1, 2]) expect((await sessions.undoCompaction("s", { key: "undo" })).frame).toEqual(first);
  const undone = (await sessions.frames("s")).items[1];
  expect(undone).toEqual({ ...second, undoneAt: undone?.undoneAt });
  expect(undone?.undoneAt).toBeGreaterThan(1_700_000_000_000);
  expect((await sessions.frames("s")).items).toEqual([first, undone]);
  requests.length = 0;
  await (
    await sessions.reply("s", "Look 5.")
  ).result;
  expect(requests[0]?.scope?.frameId).toBe(first?.id);
  expect(textOf(requests[0])).toContain("Look 3.");
  expect(await sessions.undoCompaction("s")).toEqual({ frame: null, requested: null });
  requests.length = 0;
  await (
    await sessions.reply("s", "Look 6.")
  ).result;
  expect(textOf(requests[0])).toContain("Look 0.");
  expect(requests.filter(isSummary)).toEqual([]);
  await expect(sessions.undoCompaction("s")).rejects.toThrow("session s has no frame");
  const { items } = await sessions.audit();
  expect(items.map(({ action, target }) => [action, target]).toReversed()).toEqual([
    ["compact", null],
    ["compact", null],
    ["undo_compaction", second?.id],
    ["undo_compaction", first?.id],
  ]);
});

test("a frame that was undone stays in the list, and the next undo, a fork and requests skip it", async () => {
  const requests: ModelRequest[] = [];
  const host = memoryStorage();
  const sessions = await shortSession(host, requests);
  const compactAndReply = async (text: string) => {
    await sessions.compact("s");
    await (
      await sessions.reply("s", text)
    ).result;
  };
  for (const turn of [3, 4, 5]) await compactAndReply(`Look ${turn}.`);
  const [first, second, third] = (await sessions.frames("s")).items;
  if (first === undefined || second === undefined || third === undefined) throw new Error("a frame is missing");
  await sessions.undoCompaction("s", { frame: third.id });
  await sessions.undoCompaction("s", { frame: second.id });
  const isUndone = async () => (await sessions.frames("s")).items.map(({ undoneAt }) => undoneAt !== null);
  expect(await isUndone()).toEqual([false, true, true]);
  // A fork has the frame that is left, and neither of the others.
  await sessions.fork("s", { id: "fork" });
  expect((await framesOf(host, "fork")).map(({ frame }) => frame)).toEqual([first]);
  await compactAndReply("Look 6.");
  const { frame } = (await sessions.get("s"))?.session.contextWindow ?? {};
  expect(frame?.to).toBeGreaterThan(third.to);
  // Before the new frame are two that were undone.
  expect((await sessions.undoCompaction("s")).frame).toEqual(first);
  expect(await isUndone()).toEqual([false, true, true, true]);
  requests.length = 0;
  await (
    await sessions.reply("s", "Look 7.")
  ).result;
  expect(requests[0]?.scope?.frameId).toBe(first.id);
});

test("undoCompaction withdraws a compaction that was only requested", async () => {
  const requests: ModelRequest[] = [];
  const sessions = await shortSession(memoryStorage(), requests);
  await sessions.compact("s");
  expect(await sessions.undoCompaction("s")).toEqual({ frame: null, requested: null });
  await (
    await sessions.reply("s", "Look again.")
  ).result;
  expect(requests.filter(isSummary)).toEqual([]);
});

test("both verbs are refused while a turn is open, without a session, and without a context policy", async () => {
  const host = memoryStorage();
  const hanging = runtime({ host, engines: { default: agent({ provider: "fake", stream: never }) } });
  await hanging.start("Hang.", { id: "s" });
  await expect(hanging.compact("s")).rejects.toMatchObject({ reason: "conflict" });
  await expect(hanging.undoCompaction("s")).rejects.toMatchObject({ reason: "conflict" });
  await expect(hanging.compact("none")).rejects.toMatchObject({ reason: "not_found" });
  await hanging.close({ graceMs: 0 });
  const plain = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: model([]), model: "fake:m", tools: [look] }) },
  });
  await (
    await plain.start("Hi.", { id: "s" })
  ).result;
  await expect(plain.compact("s")).rejects.toThrow('the engine "default" of session s has no contextPolicy');
});

test("compact changes neither a pending approval nor the call, whose result follows the summary", async () => {
  const requests: ModelRequest[] = [];
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    needsApproval: true,
    handler: () => "paid",
  });
  const script = ({ messages }: ModelRequest): FakeScript => {
    const last = messages.at(-1);
    if (last?.role === "tool") return [{ type: "text", text: "Done." }];
    return messageText(last ?? user("")) === "Pay."
      ? [{ type: "tool_call", name: "pay", id: "p1" }]
      : [{ type: "text", text: "Hello." }];
  };
  const adapter: Adapter = {
    provider: "fake",
    stream: (request, call) => {
      requests.push(request);
      const reply: FakeScript = isSummary(request) ? [{ type: "text", text: "We greeted." }] : script(request);
      return fake({ script: reply }).stream(request, call);
    },
  };
  const of = engine({ adapter, model: "fake:m", tools: [pay], contextPolicy: { window: 100_000 } });
  const sessions = runtime({ host: memoryStorage(), engines: { default: of } });
  await (
    await sessions.start("Hello.", { id: "s" })
  ).result;
  await (
    await sessions.reply("s", "Pay.")
  ).result;
  const before = await sessions.get("s");
  await sessions.compact("s");
  const after = await sessions.get("s");
  expect(after?.session).toEqual({ ...before?.session, contextWindow: after?.session.contextWindow });
  requests.length = 0;
  await (
    await sessions.decide("s", "p1", { type: "approve" })
  ).result;
  expect(requests.map(isSummary)).toEqual([true, false]);
  // The call and its result are sent after the summary, as they are.
  const sent = requests[1]?.messages ?? [];
  expect(sent.slice(-2).map(({ role }) => role)).toEqual(["assistant", "tool"]);
  expect(textOf(requests[1])).toContain("We greeted.");
  expect((await sessions.get("s"))?.session.status).toBe("completed");
});

test("a compaction while a child of a tool waits for an approval starts neither the child nor its calls again", async () => {
  const asked: { readonly by: "parent" | "child"; readonly request: ModelRequest }[] = [];
  const paid: unknown[] = [];
  const answering = (by: "parent" | "child", script: (request: ModelRequest) => FakeScript): Adapter => ({
    provider: by,
    stream: (request, call) => {
      asked.push({ by, request });
      const reply: FakeScript = isSummary(request) ? [{ type: "text", text: "We greeted." }] : script(request);
      return fake({ provider: by, script: reply }).stream(request, call);
    },
  });
  const hasAnswer = ({ messages }: ModelRequest): boolean => messages.at(-1)?.role === "tool";
  const schema = { type: "object" } as const;
  const handler = (input: unknown) => {
    paid.push(input);
    return "paid";
  };
  const pay = tool({ name: "pay", description: "Pays.", schema, needsApproval: true, handler });
  const helper = engine({
    adapter: answering("child", (request) =>
      hasAnswer(request)
        ? [{ type: "text", text: "The helper has paid." }]
        : [{ type: "tool_call", name: "pay", id: "p1", arguments: { euros: 5 } }],
    ),
    model: "child:m",
    tools: [pay],
  });
  const delegate = tool({
    name: "delegate",
    description: "Asks the helper.",
    schema,
    replay: "safe",
    handler: async (_, { runChild }) => (await runChild(helper, "Pay.")).text,
  });
  const of = engine({
    adapter: answering("parent", (request) =>
      hasAnswer(request)
        ? [{ type: "text", text: "Done." }]
        : messageText(request.messages.at(-1) ?? user("")) === "Pay."
          ? [{ type: "tool_call", name: "delegate", id: "d1" }]
          : [{ type: "text", text: "Hello." }],
    ),
    model: "parent:m",
    tools: [delegate],
    contextPolicy: { window: 100_000 },
  });
  const host = memoryStorage();
  const sessions = runtime({ host, engines: { default: of } });
  await (
    await sessions.start("Hello.", { id: "s" })
  ).result;
  await (
    await sessions.reply("s", "Pay.")
  ).result;
  const [waiting] = (await sessions.get("s"))?.session.pendingToolCalls ?? [];
  expect(waiting?.shown).toMatchObject({ name: "pay", arguments: { euros: 5 } });
  expect([asked.filter(({ by }) => by === "child").length, paid]).toEqual([1, []]);

  await sessions.compact("s");
  expect((await sessions.get("s"))?.session.pendingToolCalls).toEqual([waiting]);
  asked.length = 0;
  const turn = await sessions.decide("s", waiting?.id ?? "", { type: "approve" });
  expect((await turn.result).text).toBe("Done.");

  // The child goes on with the answer; the parent is asked for the summary, and then continues.
  expect(asked.map(({ by, request }) => [by, isSummary(request), hasAnswer(request)])).toEqual([
    ["child", false, true],
    ["parent", true, false],
    ["parent", false, true],
  ]);
  expect(paid).toEqual([{ euros: 5 }]);
  expect(textOf(asked.at(-1)?.request)).toContain("The helper has paid.");
  expect(await framesOf(host)).toHaveLength(1);
});

test("the model asks for a compaction with compactTool, once, with what to keep", async () => {
  const requests: ModelRequest[] = [];
  const adapter: Adapter = {
    provider: "fake",
    stream: (request, call) => {
      requests.push(request);
      const last = request.messages.at(-1);
      const script: FakeScript = isSummary(request)
        ? [{ type: "text", text: "Order 17 is open." }]
        : last?.role === "tool" || request.messages.length > 6
          ? [{ type: "text", text: "Shorter now." }]
          : [{ type: "tool_call", name: "compact_conversation", id: "k1", arguments: { keep: "the order number" } }];
      return fake({ script }).stream(request, call);
    },
  };
  const of = engine({ adapter, model: "fake:m", tools: [compactTool()], contextPolicy: { window: 100_000 } });
  const sessions = runtime({ host: memoryStorage(), engines: { default: of } });
  const { result } = await sessions.start([user("Order 17."), user("Refund it."), user("Go on.")], { id: "s" });
  expect((await result).haltedReason).toBe("completed");
  expect(requests.map(isSummary)).toEqual([false, true, false]);
  expect(textOf(requests[1])).toContain("the order number");
  expect(textOf(requests[2])).toContain("Order 17 is open.");
  expect(textOf(requests[2])).not.toContain("Refund it.");
  // The call of the tool has its result in the history.
  expect((await sessions.get("s"))?.session.thread.messages.map(({ role }) => role)).toEqual([
    "user",
    "user",
    "user",
    "assistant",
    "tool",
    "assistant",
  ]);
});
