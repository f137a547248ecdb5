// `list` with filters, and the title and the engine of a session in the list.

import { describe, expect, test } from "vitest";

import { call, counting, gate, says, thinker, World, writes } from "../../../test/runtime/world.ts";
import { imageFromUrl, imagePart, user } from "../../core/model/index.ts";

/**
 * A model that does what the last user message says: `wait` calls a tool that needs an approval, `hold` never replies,
 * `fail` fails.
 */
function obedient(held: ReturnType<typeof gate>) {
  const pay = counting("pay", { needsApproval: true });
  const hold = counting("hold", { replay: "safe", handler: () => held.wait() });
  const model = thinker(({ messages }) => {
    const last = messages.at(-1);
    const text = last?.role === "user" && typeof last.content === "string" ? last.content : "";
    if (text === "wait") return [call("pay", {}, "c1")];
    if (text === "hold") return [call("hold", {}, "c2")];
    return says("Done.");
  });
  return { model, tools: [pay.tool, hold.tool] };
}

/** Sessions of every status: `waits`, `runs`, `done`, `parked` and, with the engine `other`, `other`. */
async function everyStatus() {
  const world = new World();
  const held = gate();
  const { model, tools } = obedient(held);
  const of = world.engine(model, { tools });
  const also = { other: world.engine(model, { tools }) };
  const main = world.process(of, { also });
  const start = async (id: string, text: string, engine = "default") => {
    await world.clock.advance(10);
    return main.start(text, { id, engine });
  };
  await (
    await start("waits", "wait")
  ).result;
  await (
    await start("done", "hi")
  ).result;
  await (
    await start("other", "hi", "other")
  ).result;
  // A turn that ends its process each time is parked.
  const crashing = world.process(of, { also, maxTakeovers: 1, diesAfter: writes("journal") });
  await crashing.start("hold", { id: "parked" });
  await crashing.died;
  for (let round = 0; round < 3; round += 1) {
    await world.leaseRunsOut();
    const next = world.process(of, { also, maxTakeovers: 1 });
    await next.recover();
    await world.clock.advance(0);
    next.kill();
  }
  await world.leaseRunsOut();
  await start("runs", "hold");
  await held.reached;
  const ids = async (options: Parameters<typeof main.list>[0]) => (await main.list(options)).items.map(({ id }) => id);
  return { world, main, ids, held };
}

describe("list with a filter", () => {
  test("selects sessions by status and engine", async () => {
    const { ids } = await everyStatus();
    expect(await ids({ status: "waiting" })).toEqual(["waits"]);
    expect(await ids({ status: "parked" })).toEqual(["parked"]);
    expect(await ids({ status: "running" })).toEqual(["runs"]);
    expect(await ids({ status: "ended" })).toEqual(["other", "done"]);
    expect(await ids({ status: "failed" })).toEqual([]);
    expect(await ids({ engine: "other" })).toEqual(["other"]);
    expect(await ids({ status: "waiting", engine: "other" })).toEqual([]);
  });

  test("lists a session as waiting until it is answered, and a parked turn until it is recovered", async () => {
    const { world, main, ids } = await everyStatus();
    await (
      await main.decide("waits", "c1", { type: "deny" })
    ).result;
    expect(await ids({ status: "waiting" })).toEqual([]);
    expect(await ids({ status: "ended" })).toContain("waits");
    await main.recover("parked");
    await world.clock.advance(0);
    expect(await ids({ status: "parked" })).toEqual([]);
    expect(await world.rows("attention")).toEqual([]);
  });

  test("does not list deleted sessions", async () => {
    const { world, main, ids } = await everyStatus();
    for (const id of ["waits", "parked"]) await main.delete(id);
    expect(await ids({ status: "waiting" })).toEqual([]);
    expect(await world.rows("attention")).toEqual([]);
    expect(await world.rows("turn_times", ["", "waits"])).toEqual([]);
  });

  test("pages through matching sessions with a cursor", async () => {
    const world = new World();
    const { model, tools } = obedient(gate());
    const main = world.process(world.engine(model, { tools }));
    for (let index = 0; index < 5; index += 1) {
      // Two of them change in the same millisecond.
      if (index !== 1) await world.clock.advance(10);
      await (
        await main.start("wait", { id: `w${index}` })
      ).result;
    }
    const found: string[] = [];
    let after: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof main.list>> = await main.list({
        status: "waiting",
        limit: 2,
        ...(after === null ? {} : { after }),
      });
      found.push(...page.items.map(({ id }) => id));
      after = page.next;
    } while (after !== null);
    expect(found).toEqual(["w4", "w3", "w2", "w1", "w0"]);
  });

  test("examines a bounded number of sessions for a page and continues with its cursor", async () => {
    const world = new World();
    const main = world.process(world.engine(thinker(() => says("Done."))));
    await (
      await main.start("hi", { id: "oldest" })
    ).result;
    await world.clock.advance(1);
    const head = (await world.rows("sessions"))[0];
    if (head === undefined) throw new Error("there is no session");
    const session = JSON.parse(head.value);
    for (let index = 0; index < 1100; index += 1) {
      const id = `f${index}`;
      const data = {
        ...session.data,
        session: { ...session.data.session, id },
        engine: "other",
        changedAt: 5000 + index,
      };
      const row = { ...head, key: ["", id] };
      await world.raw("sessions", row, JSON.stringify({ ...session, data }));
      await world.raw("recent", { ...head, key: ["", 2e12 + index, id] }, "");
    }
    const first = await main.list({ engine: "default" });
    expect(first.items).toEqual([]);
    expect(first.next).not.toBe(null);
    const second = await main.list({ engine: "default", after: first.next ?? "" });
    expect(second).toMatchObject({ items: [{ id: "oldest" }], next: null });
  });

  test("rejects an unknown status", async () => {
    const world = new World();
    const main = world.process(world.engine(thinker(() => says("Done."))));
    await expect(main.list(JSON.parse('{"status":"lost"}'))).rejects.toMatchObject({ path: ["status"] });
  });
});

describe("the title of a session", () => {
  const titleOf = async (...args: Parameters<ReturnType<World["process"]>["start"]>) => {
    const world = new World();
    const main = world.process(world.engine(thinker(() => says("Done."))));
    await (
      await main.start(...args)
    ).result;
    const { title, engine } = (await main.list()).items[0] ?? {};
    expect(engine).toBe("default");
    return title;
  };

  test.each([
    ["is the first user message in one line", ["Hello\n  there", { id: "s1" }], "Hello there"],
    ["is that of the metadata", ["Hello", { id: "s1", metadata: { title: "Order 17" } }], "Order 17"],
    ["ignores metadata that is no text", ["Hello", { id: "s1", metadata: { title: 7 } }], "Hello"],
    ["has at most 120 characters", ["🙂".repeat(200), { id: "s1" }], "🙂".repeat(120)],
    ["is null without text", [[user([imagePart(imageFromUrl("https://example.com/a.png"))])], { id: "s1" }], null],
  ] as const)("%s", async (_, [input, options], expected) => {
    expect(await titleOf(input, options)).toBe(expected);
  });

  test("is that of the copied messages in a fork, and is deleted with the session", async () => {
    const world = new World();
    const main = world.process(world.engine(thinker(() => says("Done."))));
    await (
      await main.start("A secret question", { id: "s1" })
    ).result;
    await (
      await main.reply("s1", "And another one")
    ).result;
    await main.fork("s1", { id: "s2" });
    expect((await main.list()).items.map(({ title }) => title)).toEqual(["A secret question", "A secret question"]);
    await main.delete("s1");
    await main.delete("s2");
    expect(await world.everything(["sessions", "recent", "attention"])).not.toContain("secret");
  });
});
