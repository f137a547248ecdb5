// Child turns: turns that a tool runs inside its call (Q10).

import type { FakeOptions } from "../../core/adapters/internal.ts";
import type { HostStorage, Runtime } from "../index.ts";

import { describe, expect, test } from "vitest";

import { fake } from "../../core/adapters/internal.ts";
import { agentTool, askUser, engine, tool } from "../../core/engine/internal.ts";
import { RuntimeError } from "../../core/model/internal.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { runtime } from "../index.ts";

const call = (name: string, args: { readonly [key: string]: string } = {}) =>
  ({ type: "tool_call", name, arguments: args }) as const;
const says = (text: string) => ({ type: "text", text }) as const;

/** A session whose only tool runs a child turn. */
function office(
  inner: NonNullable<FakeOptions["scripts"]>,
  tools: readonly ReturnType<typeof tool>[],
  host: HostStorage = memoryStorage(),
) {
  const clerk = fake({ scripts: inner, usage: { inputTokens: 10, outputTokens: 1 } });
  const desk = engine({ adapter: clerk, model: "fake:clerk", tools });
  const began: string[] = [];
  const delegate = tool({
    name: "delegate",
    description: "Lets a clerk do it.",
    schema: { type: "object" },
    replay: "safe",
    handler: async (_, { runChild, idempotencyKey }) => {
      began.push(idempotencyKey);
      const { finalResponse } = await runChild(desk, "do it");
      return finalResponse?.outputText ?? "";
    },
  });
  const boss = fake({
    scripts: [[call("delegate")], [says("settled")]],
    usage: { inputTokens: 100, outputTokens: 10 },
  });
  const sessions = runtime({
    host,
    engines: { default: engine({ adapter: boss, model: "fake:boss", tools: [delegate] }) },
    live: false,
  });
  return { sessions, clerk, boss, began };
}

const ask = tool({
  name: "ask",
  description: "Asks.",
  schema: { type: "object" },
  handler: () => askUser("Which one?"),
});
const askForResult = tool({
  name: "ask",
  description: "Asks.",
  schema: { type: "object" },
  handler: () => askUser("Which one?", { answerAs: "tool_result" }),
});
const paid: string[] = [];
const pay = tool({
  name: "pay",
  description: "Pays.",
  schema: { type: "object" },
  needsApproval: true,
  handler: (_, { idempotencyKey }) => {
    paid.push(idempotencyKey);
    return "paid";
  },
});
const lift = tool({ name: "lift", description: "Lifts.", schema: { type: "object" }, manual: true });

async function begun(sessions: Runtime) {
  return (await sessions.start("go", { id: "s" })).result;
}

describe("Q10 a child turn that has to wait makes the tool call pending", () => {
  test.each([
    ["as a user's message", ask],
    ["as the tool's result", askForResult],
  ])("for the answer to its question, %s", async (_, tools) => {
    const { sessions, clerk, began } = office([[call("ask")], [says("the red one it is")]], [tools]);
    const asked = await begun(sessions);
    expect(asked).toMatchObject({
      haltedReason: "ask_user",
      session: { status: "awaiting_user", pendingQuestion: "Which one?" },
    });
    expect(asked.session.pendingToolCalls).toMatchObject([{ name: "delegate", reason: "question", path: ["call_0"] }]);
    const end = await (await sessions.reply("s", "the red one")).result;
    expect(end).toMatchObject({ text: "settled", session: { status: "completed", pendingToolCalls: [] } });
    const view = await sessions.get("s");
    expect(view?.session.thread.messages.find(({ role }) => role === "tool")?.content).toBe("the red one it is");
    // The handler ran again from its start, under the same idempotency key; the child turn continued.
    expect(began).toEqual([began[0], began[0]]);
    expect(clerk.calls).toHaveLength(2);
    const innerMessages = JSON.stringify(clerk.calls[1]?.request.messages);
    expect(innerMessages).toContain("the red one");
  });

  test("for an approval, which is forwarded to the inner call", async () => {
    paid.length = 0;
    const { sessions, clerk } = office([[call("pay")], [says("all paid")]], [pay]);
    const waits = await begun(sessions);
    expect(waits.session).toMatchObject({
      status: "awaiting_tools",
      pendingToolCalls: [
        { name: "delegate", reason: "approval", path: ["call_0"], opts: { inner: { name: "pay", arguments: {} } } },
      ],
    });
    expect(paid).toEqual([]);
    const id = waits.session.pendingToolCalls[0]?.id ?? "";
    const end = await (await sessions.decide("s", id, { type: "approve", by: "Ada" })).result;
    expect(end.text).toBe("settled");
    expect(paid).toHaveLength(1);
    expect(clerk.calls).toHaveLength(2);
  });

  test("a denial is reported to the inner model", async () => {
    const { sessions, clerk } = office([[call("pay")], [says("never mind")]], [pay]);
    const waits = await begun(sessions);
    const id = waits.session.pendingToolCalls[0]?.id ?? "";
    await (
      await sessions.decide("s", id, { type: "deny", reason: "too dear" })
    ).result;
    expect(JSON.stringify(clerk.calls[1]?.request.messages)).toContain("too dear");
  });

  test("for the results of manual calls, one after the other", async () => {
    const { sessions, clerk } = office([[call("lift"), call("pay")], [says("lifted and paid")]], [lift, pay]);
    const first = await begun(sessions);
    expect(first.session.pendingToolCalls).toMatchObject([{ reason: "approval", path: ["call_1"] }]);
    const id = first.session.pendingToolCalls[0]?.id ?? "";
    const second = await (await sessions.decide("s", id, { type: "approve" })).result;
    expect(second.session.pendingToolCalls).toMatchObject([{ reason: "manual", path: ["call_0"] }]);
    const end = await (await sessions.submitToolResults("s", [[id, "up"]])).result;
    expect(end.text).toBe("settled");
    expect(clerk.calls).toHaveLength(2);
  });

  test("its usage is booked once, in the turn that paid for it", async () => {
    const { sessions } = office([[call("ask")], [says("done")]], [ask]);
    const asked = await begun(sessions);
    expect(asked.usage.inputTokens).toBe(110);
    const end = await (await sessions.reply("s", "that one")).result;
    expect(end.usage.inputTokens).toBe(110);
    expect((await sessions.get("s"))?.session.usage.inputTokens).toBe(220);
    expect((await sessions.usage("s")).total.inputTokens).toBe(220);
  });

  test("also with a child turn inside a child turn", async () => {
    const middle = tool({
      name: "middle",
      description: "Hands on.",
      schema: { type: "object" },
      replay: "safe",
      handler: async (_, { runChild }) => {
        const inner = engine({ adapter: innermost, model: "fake:inner", tools: [ask] });
        return (await runChild(inner, "ask them")).finalResponse?.outputText ?? "";
      },
    });
    const innermost = fake({ scripts: [[call("ask")], [says("blue")]] });
    const { sessions } = office([[call("middle")], [says("it is blue")]], [middle]);
    const asked = await begun(sessions);
    expect(asked.session.pendingToolCalls).toMatchObject([{ reason: "question", path: ["call_0", "call_0"] }]);
    const end = await (await sessions.reply("s", "blue, please")).result;
    expect(end.text).toBe("settled");
    expect(innermost.calls).toHaveLength(2);
    expect(JSON.stringify(innermost.calls[1]?.request.messages)).toContain("blue, please");
  });
});

test("Q10 an agent tool is safe to run again, and a failure of its turn is a failure of the tool", async () => {
  const broken = fake({ script: [{ type: "error", reason: "provider_unavailable" }] });
  const helper = agentTool({
    name: "helper",
    description: "Helps.",
    engine: engine({ adapter: broken, retry: false }),
  });
  expect(helper).toMatchObject({ replay: "safe", schema: { required: ["task"] } });
  const boss = fake({ scripts: [[call("helper", { task: "help" })], [says("alone, then")]] });
  const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter: boss, tools: [helper] }) } });
  const end = await begun(sessions);
  expect(end.text).toBe("alone, then");
  expect((await sessions.get("s"))?.session.thread.messages[2]).toMatchObject({ role: "tool", code: "handler_failed" });
});

describe("Q10 an answer is for one wait of one child turn", () => {
  const wants = (to: string) => fake({ scripts: [[{ ...call("pay"), arguments: { to } }], [says(`${to} has it`)]] });
  const spent: unknown[] = [];
  const spend = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    needsApproval: true,
    handler: (to) => {
      spent.push(to);
      return "paid";
    },
  });

  /** A tool that runs two child turns, sequentially or concurrently; both call `pay`. */
  function pair(sideBySide: boolean, definition: { readonly needsApproval?: boolean } = {}) {
    spent.length = 0;
    const ran: unknown[] = [];
    const [ann, bob] = [wants("ann"), wants("bob")].map((adapter) => engine({ adapter, tools: [spend] }));
    const both = tool({
      name: "both",
      description: "Asks two.",
      schema: { type: "object" },
      replay: "safe",
      ...definition,
      handler: async (args, { runChild }) => {
        ran.push(args);
        if (ann === undefined || bob === undefined) throw new Error("two, not fewer");
        if (sideBySide) return (await Promise.all([runChild(ann, "go"), runChild(bob, "go")])).map(outputText);
        return [await runChild(ann, "go"), await runChild(bob, "go")].map(outputText);
      },
    });
    const boss = fake({ scripts: [[{ ...call("both"), arguments: { n: 5000 } }], [says("settled")]] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter: boss, tools: [both] }) } });
    return { sessions, ran };
  }

  const outputText = ({ finalResponse }: { readonly finalResponse: { readonly outputText: string | null } | null }) =>
    finalResponse?.outputText ?? "";

  test.each([
    ["one after the other", false],
    ["side by side", true],
  ])("two child turns in one call, %s, need one approval each", async (_, sideBySide) => {
    const { sessions } = pair(sideBySide);
    const first = await begun(sessions);
    const id = first.session.pendingToolCalls[0]?.id ?? "";
    expect(first.session.pendingToolCalls).toMatchObject([{ opts: { inner: { arguments: { to: "ann" } } } }]);
    const second = await (await sessions.decide("s", id, { type: "approve" })).result;
    expect(spent).toEqual([{ to: "ann" }]);
    expect(second.session.pendingToolCalls).toMatchObject([{ opts: { inner: { arguments: { to: "bob" } } } }]);
    const end = await (await sessions.decide("s", id, { type: "approve" })).result;
    expect(end.text).toBe("settled");
    expect(spent).toEqual([{ to: "ann" }, { to: "bob" }]);
    expect((await sessions.get("s"))?.session.thread.messages[2]?.content).toBe('["ann has it","bob has it"]');
  });

  test("a fork asks again, and answers of one session do not reach the other", async () => {
    const { sessions } = pair(false);
    await begun(sessions);
    const fork = await sessions.fork("s");
    const [waits] = (await sessions.get(fork))?.session.pendingToolCalls ?? [];
    await (
      await sessions.decide(fork, waits?.id ?? "", { type: "approve" })
    ).result;
    expect(spent).toEqual([]);
  });

  test("edited arguments are kept when the tool runs again", async () => {
    const { sessions, ran } = pair(false, { needsApproval: true });
    const first = await begun(sessions);
    const id = first.session.pendingToolCalls[0]?.id ?? "";
    const inner = await (await sessions.decide("s", id, { type: "approve", arguments: { n: 5 } })).result;
    expect(inner.session.pendingToolCalls).toMatchObject([{ path: ["call_0"] }]);
    const edited = sessions.decide("s", id, { type: "approve", arguments: { to: "eve" } });
    await expect(edited).rejects.toThrow(/nested turn cannot be changed/);
    await (
      await sessions.decide("s", id, { type: "approve" })
    ).result;
    await (
      await sessions.decide("s", id, { type: "approve" })
    ).result;
    expect(ran).toEqual([{ n: 5 }, { n: 5 }, { n: 5 }]);
  });
});

describe("Q1 an error of the storage inside a child turn", () => {
  const failure = () => new RuntimeError("storage_failed", { message: "the disk is gone" });
  const isChild = (row: { readonly table: string; readonly key: readonly unknown[] }, table: string) =>
    row.table === table && String(row.key[2]).includes("/child/");

  /** A storage that fails once. */
  function failing(fails: { readonly read?: string; readonly write?: string }): HostStorage {
    const storage = memoryStorage();
    let left = 1;
    const failsNow = (matches: boolean) => matches && (left -= 1) >= 0;
    return {
      ...storage,
      read: async (queries) => {
        if (failsNow(queries.some(({ table, prefix }) => isChild({ table, key: prefix }, fails.read ?? ""))))
          throw failure();
        return storage.read(queries);
      },
      write: async (batch) => {
        if (failsNow(batch.puts.some((put) => isChild(put, fails.write ?? "")))) throw failure();
        return storage.write(batch);
      },
    };
  }

  test.each([
    ["when its records are read", { read: "records" }, 0],
    ["when its journal is read", { read: "journal" }, 0],
    ["when a record is written", { write: "records" }, 0],
    ["when a reply is recorded", { write: "journal" }, 1],
  ])("leaves the turn open and is not the result of the call, %s", async (_, fails, repeated) => {
    const replies = [...Array.from({ length: repeated }, () => [says("lost")]), [says("done")]];
    const { sessions, clerk } = office(replies, [], failing(fails));
    const turn = await sessions.start("go", { id: "s" });
    await expect(turn.result).rejects.toThrow("the disk is gone");
    expect(await sessions.recover("s")).toMatchObject({ pickedUp: 1 });
    const end = await sessions.attach("s", turn.turnId).result;
    expect(end.text).toBe("settled");
    expect((await sessions.get("s"))?.session.thread.messages[2]?.content).toBe("done");
    expect(clerk.calls).toHaveLength(1 + repeated);
  });
});

test("every journal row and record of a turn and of its child turns is fenced by the lease (H3)", async () => {
  const storage = memoryStorage();
  const unfenced: string[] = [];
  let fenced = 0;
  const watched: HostStorage = {
    ...storage,
    write: (batch) => {
      const written = batch.puts.filter(({ table }) => table === "journal" || table === "records");
      const isFenced = batch.checks.some(
        ({ table, tag, alive }) => table === "leases" && tag !== null && alive === true,
      );
      if (isFenced) fenced += written.length;
      else unfenced.push(...written.map(({ table, key }) => `${table} ${key.slice(2).join(" ")}`));
      return storage.write(batch);
    },
  };
  const note = tool({
    name: "note",
    description: "Notes.",
    schema: { type: "object" },
    replay: "never",
    handler: () => "ok",
  });
  const { sessions } = office([[call("note")], [call("ask")], [says("done")]], [note, ask], watched);
  expect(await begun(sessions)).toMatchObject({ haltedReason: "ask_user" });
  expect(await (await sessions.reply("s", "the red one")).result).toMatchObject({ text: "settled" });
  expect(unfenced).toEqual([]);
  const [rows = [], records = []] = await storage.read([
    { table: "journal", prefix: [] },
    { table: "records", prefix: [] },
  ]);
  const childRecords = records.filter(({ key }) => String(key[2]).includes("/child/"));
  expect(childRecords.length).toBeGreaterThan(3);
  expect(fenced).toBeGreaterThanOrEqual(rows.length + records.length);
});

test("Q10 a child turn begins again if the storage has lost its last row: its journal has no gap", async () => {
  const host = memoryStorage();
  const childRows = async () => {
    const [rows = []] = await host.read([{ table: "journal", prefix: ["", "s"] }]);
    return rows.filter(({ key }) => String(key[2]).includes("/child/"));
  };
  // After a failover to an older copy the lease may still be that of this process.
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: async () => {
      const removals = (await childRows()).map(({ key }) => ({ table: "journal", prefix: key }) as const);
      await host.write({ checks: [], removals, puts: [] });
      return "seen";
    },
  });
  const { sessions, clerk } = office([[call("look")], [says("begun again")]], [look], host);
  const worker = new AbortController();
  const working = sessions.work({ signal: worker.signal });
  expect((await begun(sessions)).text).toBe("settled");
  worker.abort();
  await working;
  expect((await childRows()).map(({ key }) => key[3])).toEqual([1, 2]);
  expect(clerk.calls[1]?.request.messages.map(({ role }) => role)).toEqual(["user"]);
});
