// The hooks `beforeTurn` and `afterTurn`, and the directives of `onCheckpoint`, in memory. The durable cases are in
// durable/program-callbacks.test.ts.

import type { ChatOptions } from "everturn";
import type { TurnCause } from "everturn/advanced";

import {
  askUser,
  chat,
  finish,
  generate,
  halt,
  step,
  system,
  tool,
  user,
  messageText,
  session as sessions,
} from "everturn";
import { validateSession } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../../test/runs.ts";

const ok = plain("ok", () => "fine");
const mail: TurnCause = {
  id: "w1",
  eventType: "mail.new",
  origin: { type: "plugin", pluginId: "mail", transient: false },
  text: "Two letters.",
};
const abort = { type: "abort", reason: "the account is locked" } as const;
const aborted = { type: "cancelled", evidence: { origin: "hook", reason: "the account is locked" } };

describe("[lash 74] beforeTurn", () => {
  test("runs once, before the first model call, and sees the thread", async () => {
    const order: string[] = [];
    const { engine: of } = playing([calls("ok"), says("Done.")], [ok]);
    const hooks = {
      beforeTurn: ({ thread }: { readonly thread: { readonly messages: readonly unknown[] } }) => {
        order.push(`before turn, ${thread.messages.length} message`);
        return null;
      },
      beforeStep: (index: number) => void order.push(`step ${index}`),
      afterTurn: ({ haltedReason }: { readonly haltedReason: string }) =>
        void order.push(`after turn, ${haltedReason}`),
    };
    await chat(of, "hi", { hooks });
    expect(order).toEqual(["before turn, 1 message", "step 0", "step 1", "after turn, completed"]);
  });

  test("adds messages, transient messages and turn causes before the first model call", async () => {
    const { engine: of, adapter } = playing([says("Done.")]);
    const beforeTurn = () => ({
      messages: [system("Today is Monday.")],
      transientMessages: [user("The page is /inbox.")],
      turnCauses: [mail],
    });
    const { thread } = await chat(of, "hi", { hooks: { beforeTurn } });
    expect(thread.messages.map(({ role }) => role)).toEqual(["user", "system", "event", "assistant"]);
    const request = (adapter.calls[0]?.request.messages ?? []).map(messageText).join("\n");
    for (const text of ["Today is Monday.", "The page is /inbox.", "--- event[0] · mail.new · w1 ---"]) {
      expect(request).toContain(text);
    }
  });

  test("aborts the turn before a model call is made", async () => {
    const { engine: of, adapter } = playing([says("Never.")]);
    const ended: string[] = [];
    const hooks = {
      beforeTurn: () => abort,
      afterTurn: ({ haltedReason }: { readonly haltedReason: string }) => void ended.push(haltedReason),
    };
    const result = await chat(of, "hi", { hooks });
    expect(result).toMatchObject({ haltedReason: "cancelled", outcome: aborted, steps: [] });
    expect([adapter.calls.length, ended]).toEqual([0, ["cancelled"]]);
  });

  test("adds its input after the calls that the turn resumes, and an abort does not run them", async () => {
    let runs = 0;
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      needsApproval: true,
      handler: () => `paid ${(runs += 1)}`,
    });
    const asking = playing([calls("pay")], [pay]).engine;
    const { session: waiting } = await sessions.start(asking, "Pay.");
    const decided = await sessions.decide(asking, waiting, "c0", { type: "approve" });
    const resume = (beforeTurn: () => { readonly turnCauses: readonly TurnCause[] } | typeof abort) =>
      sessions.continue(playing([says("Paid.")], [pay]).engine, decided, null, { hooks: { beforeTurn } });
    const { session: refused } = await resume(() => abort);
    expect(refused.thread.messages.at(-1)).toMatchObject({
      role: "tool",
      content: expect.stringContaining("its approval was deleted"),
    });
    expect(runs).toBe(0);
    const { session: paid } = await resume(() => ({ turnCauses: [mail] }));
    expect(paid.thread.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "event", "assistant"]);
    expect(runs).toBe(1);
  });

  test("adds its input also if the turn ends with the calls that it resumes, unless it asks the user", async () => {
    const resumed = async (handler: () => unknown, options: ChatOptions = {}) => {
      const described = { name: "pay", description: "Pays.", schema: { type: "object" } };
      const pay = tool({ ...described, needsApproval: true, handler });
      const { engine: asking } = playing([calls("pay")], [pay]);
      const { session: waiting } = await sessions.start(asking, "Pay.");
      const decided = await sessions.decide(asking, waiting, "c0", { type: "approve" });
      const { engine: of, adapter } = playing([says('{"paid":true}')], [pay]);
      const hooks = { beforeTurn: () => ({ turnCauses: [mail], messages: [user("Thanks.")] }) };
      const { session } = await sessions.continue(of, decided, null, { hooks, ...options });
      expect(validateSession(session).ok).toBe(true);
      return { session, roles: session.thread.messages.map(({ role }) => role), adapter };
    };
    const input = ["user", "event"];
    expect((await resumed(() => halt("paid", 1))).roles).toEqual(["user", "assistant", "tool", ...input]);
    const controller = new AbortController();
    const cancelled = await resumed(() => controller.abort(), { signal: controller.signal });
    expect(cancelled.session.status).toBe("idle");
    expect(cancelled.roles).toEqual(["user", "assistant", "tool", ...input]);
    const responseFormat = { type: "json_object" } as const;
    const structured = await resumed(() => finish("paid"), { structuredFinalize: true, responseFormat });
    expect(structured.roles).toEqual(["user", "assistant", "tool", ...input, "user", "assistant"]);
    expect(structured.adapter.calls[0]?.request.messages.some((message) => messageText(message) === "Thanks.")).toBe(
      true,
    );
    const asks = await resumed(() => askUser("Which account?"));
    expect(asks.session).toMatchObject({ status: "awaiting_user", pendingQuestion: "Which account?" });
    expect(asks.roles).not.toContain("event");
  });

  test("rejects the run if it throws or returns an invalid message", async () => {
    const bad = JSON.parse('{"messages":[{"role":"user"}]}');
    const broken = () => {
      throw new RangeError("mine");
    };
    await expect(chat(playing([]).engine, "hi", { hooks: { beforeTurn: () => bad } })).rejects.toThrow(/content/);
    await expect(chat(playing([]).engine, "hi", { hooks: { beforeTurn: broken } })).rejects.toThrow("mine");
  });

  test("runs for step, and not for generate", async () => {
    let turns = 0;
    const hooks = { beforeTurn: () => ((turns += 1), null), afterTurn: () => void (turns += 10) };
    const of = playing([says("A"), says("B")], [], { options: { hooks } }).engine;
    await step(of, "hi");
    expect(turns).toBe(11);
    await generate(of, "hi");
    expect(turns).toBe(11);
  });
});

describe("[lash 74] afterTurn", () => {
  test("gets the result that chat returns, also of a failed and of a cancelled turn", async () => {
    const results: unknown[] = [];
    const hooks = { afterTurn: (result: unknown) => void results.push(result) };
    const expected = [
      await chat(playing([says("Done.")]).engine, "hi", { hooks }),
      await chat(
        playing([
          [
            { type: "text", text: "Half" },
            { type: "error", reason: "invalid_request" },
          ],
        ]).engine,
        "hi",
        { hooks },
      ),
      await chat(playing([]).engine, "hi", { hooks, signal: AbortSignal.abort() }),
    ];
    expect(expected.map(({ haltedReason }) => haltedReason)).toEqual(["completed", "error", "cancelled"]);
    expect(results).toEqual(expected);
  });

  test("that throws rejects the run", async () => {
    const afterTurn = () => Promise.reject(new RangeError("mine"));
    await expect(chat(playing([says("A")]).engine, "hi", { hooks: { afterTurn } })).rejects.toThrow("mine");
  });
});

describe("[lash 74] directives of onCheckpoint", () => {
  test("an abort after the tools of a step ends the turn with the results of the tools", async () => {
    const { engine: of, adapter } = playing([calls("ok"), says("Never.")], [ok]);
    const result = await chat(of, "hi", { onCheckpoint: () => abort });
    expect(result).toMatchObject({
      haltedReason: "cancelled",
      outcome: aborted,
      metadata: { cancellation: aborted.evidence },
    });
    expect(result.thread.messages.map(messageText)).toEqual(["hi", "", "fine"]);
    expect(adapter.calls).toHaveLength(1);
  });

  test("an abort before completion keeps the answer in the thread", async () => {
    const result = await chat(playing([says("A")]).engine, "hi", { onCheckpoint: () => abort });
    expect(result).toMatchObject({ outcome: aborted });
    expect(result.thread.messages.map(messageText)).toEqual(["hi", "A"]);
  });

  test("turn causes join the turn once, and the model reads them in the next step", async () => {
    const { engine: of, adapter } = playing([calls("ok"), says("Read."), says("Never.")], [ok]);
    const { thread, haltedReason } = await chat(of, "hi", { onCheckpoint: () => ({ turnCauses: [mail] }) });
    expect(haltedReason).toBe("completed");
    expect(thread.messages.filter(({ role }) => role === "event")).toHaveLength(1);
    expect((adapter.calls[1]?.request.messages ?? []).map(messageText).join("\n")).toContain("mail.new · w1");
    expect(adapter.calls).toHaveLength(2);
  });

  // What a program without a compiler may return.
  test.each([
    "5",
    '"abort"',
    "[]",
    '{"type":"abort"}',
    '{"type":"stop","reason":"x"}',
    '{"mesages":[]}',
    '{"messages":5}',
    '{"turnCauses":[5]}',
    '{"turnCauses":[{"id":"a","eventType":"b","origin":null,"text":"c"}]}',
  ])("an invalid directive is refused: %s", async (text) => {
    const directive = JSON.parse(text);
    const { engine: of } = playing([calls("ok"), says("Never.")], [ok]);
    const misuse = { name: "MisuseError", reason: "invalid_argument" };
    await expect(chat(of, "hi", { onCheckpoint: () => directive })).rejects.toMatchObject(misuse);
    await expect(chat(of, "hi", { hooks: { beforeTurn: () => directive } })).rejects.toMatchObject(misuse);
  });
});
