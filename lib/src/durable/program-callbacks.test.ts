// Functions of the program that a turn calls: hooks and `onCheckpoint`.

import type { TelemetryEvent } from "everturn/advanced";

import { engine, fake, subscribe, tool, user } from "everturn";
import { describe, expect, test } from "vitest";

import { says, sessionsOf, toolCall, workTool } from "../../test/runtime/sessions.ts";
import { gate, talk, worker, World } from "../../test/runtime/world.ts";

describe("callbacks of the program", () => {
  test("an afterStep hook that throws ends the turn with callback_failed, and no further model call is made", async () => {
    const adapter = fake({ scripts: [[toolCall("work")], [says("never")], [says("again")]] });
    const hooks = {
      afterStep: () => {
        throw new Error("no");
      },
    };
    const sessions = sessionsOf(engine({ adapter, tools: [workTool(() => "ok")], options: { hooks } }));
    const end = await (await sessions.start("go", { id: "s" })).result;
    expect(end).toMatchObject({ haltedReason: "error", failure: { reason: "callback_failed" } });
    expect(adapter.calls).toHaveLength(1);
    expect(await sessions.recover("s")).toMatchObject({ usable: true });
  });

  test("onCheckpoint is called for the turn and for the child turns of its tools", async () => {
    const asked: string[] = [];
    const onCheckpoint = ({ checkpoint }: { readonly checkpoint: string }) => {
      asked.push(checkpoint);
      return null;
    };
    const inner = engine({ adapter: fake({ scripts: [[says("inner")]] }), options: { onCheckpoint } });
    const delegate = tool({
      name: "work",
      description: "Delegates.",
      schema: { type: "object" },
      replay: "safe",
      handler: async (_, { runChild }) => (await runChild(inner, "do it")).haltedReason,
    });
    const adapter = fake({ scripts: [[toolCall("work")], [says("done")]] });
    await (
      await sessionsOf(engine({ adapter, tools: [delegate], options: { onCheckpoint } })).start("go")
    ).result;
    expect(asked).toEqual(["before_completion", "after_work", "before_completion"]);
  });
});

const mail = {
  id: "w1",
  eventType: "mail.new",
  origin: { type: "plugin", pluginId: "mail", transient: false },
  text: "Two letters.",
} as const;

describe("[lash 74] turn hooks of a durable turn", () => {
  test("a process that takes the turn over does not call beforeTurn again, and uses its recorded input", async () => {
    const world = new World();
    const barrier = gate();
    const hookCalls: string[] = [];
    const hooks = (process: string) => ({
      beforeTurn: () => {
        hookCalls.push(`${process} before`);
        return { messages: [user(`From ${process}.`)], turnCauses: [mail] };
      },
      afterTurn: () => void hookCalls.push(`${process} after`),
    });
    const of = (process: string) =>
      world.engine(worker("work"), {
        tools: [workTool(() => (process === "first" ? barrier.wait().then(() => "late") : "ok"))],
        options: { hooks: hooks(process) },
      });
    const first = world.process(of("first"));
    const { turnId } = await first.start("hi", { id: "s1" });
    await barrier.reached;
    first.kill();
    await world.leaseRunsOut();
    const second = world.process(of("second"));
    await second.recover();
    expect(await second.attach("s1", turnId).result).toMatchObject({ haltedReason: "completed" });
    expect(hookCalls).toEqual(["first before", "second after"]);
    expect((await talk(second)).slice(0, 3)).toEqual(["user hi", "user From first.", "event Two letters."]);
  });

  test("beforeTurn is called again if the process dies before its directive is recorded", async () => {
    const world = new World();
    let hookCalls = 0;
    const of = world.engine(worker("work"), {
      tools: [workTool(() => "ok")],
      options: { hooks: { beforeTurn: () => ((hookCalls += 1), null) } },
    });
    const dies = ({ batch }: { readonly batch: { readonly puts: readonly { readonly table: string }[] } }) =>
      batch.puts.some(({ table }) => table === "journal");
    const first = world.process(of, { diesBefore: dies });
    await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    expect(await second.attach("s1").result).toMatchObject({ haltedReason: "completed" });
    expect(hookCalls).toBe(2);
  });

  test("an abort of beforeTurn or onCheckpoint ends the turn, and queued input starts the next turn", async () => {
    const adapter = fake({ scripts: [[toolCall("work")], [says("B")]] });
    let aborts = 2;
    const abort = () => (aborts > 0 ? ((aborts -= 1), { type: "abort", reason: "locked" } as const) : null);
    let sent: Promise<unknown> | null = null;
    const tools = [
      workTool(async () => {
        sent ??= sessions.send("s", "later");
        await sent;
        return "ok";
      }),
    ];
    const options = { hooks: { beforeTurn: () => (aborts === 2 ? abort() : null) }, onCheckpoint: abort };
    const sessions = sessionsOf(engine({ adapter, tools, options }));
    const evidence = { origin: "hook", reason: "locked" };
    const first = await (await sessions.start("go", { id: "s" })).result;
    expect(first).toMatchObject({ haltedReason: "cancelled", outcome: { evidence } });
    expect(adapter.calls).toHaveLength(0);
    const second = await (await sessions.reply("s", "again")).result;
    expect(second).toMatchObject({ haltedReason: "cancelled", outcome: { evidence } });
    await sessions.attach("s").result;
    const view = await sessions.get("s");
    expect(view?.session.thread.messages.slice(-2)).toMatchObject([{ content: "later" }, { content: "B" }]);
  });

  test("an error of afterTurn is reported to telemetry, and the turn stays completed", async () => {
    const errors: string[] = [];
    const stop = subscribe((event: TelemetryEvent) => void (event.type === "exception" && errors.push(event.error)));
    const afterTurn = () => Promise.reject(new Error("mine"));
    const adapter = fake({ scripts: [[says("A")], [says("B")]] });
    const sessions = sessionsOf(engine({ adapter, options: { hooks: { afterTurn } } }));
    expect(await (await sessions.start("go", { id: "s" })).result).toMatchObject({ haltedReason: "completed" });
    expect(await (await sessions.reply("s", "and?")).result).toMatchObject({ haltedReason: "completed" });
    stop();
    expect(errors).toEqual(["mine", "mine"]);
  });
});
