// Validation of what callers pass to verbs, also without a compiler: invalid values are refused before anything is
// written.

import type { Process } from "../../test/runtime/world.ts";

import { MisuseError, newSession, user } from "everturn";
import { describe, expect, test } from "vitest";

import { awaitingApproval } from "../../test/runtime/awaiting-approval.ts";
import { counting, gate, worker, World } from "../../test/runtime/world.ts";
import { checkReadable, writeValue } from "./rows/stored.ts";

/** A value as it arrives from JSON, without static types. */
const fromWire = (text: string) => JSON.parse(text);

const misuse = (path: readonly (string | number)[]) => ({ name: "MisuseError", path });

describe("values that could not be read back are refused before anything is written", () => {
  test("decisions, passed to decide or to complete", async () => {
    const { world, of } = await awaitingApproval();
    const token = await of.token("s1", "c0");
    const before = world.writes.length;
    const given: readonly (readonly [string, readonly (string | number)[]])[] = [
      ['{"type":"approve","by":5}', ["by"]],
      ['{"type":"approve","by":{"name":"Eve"}}', ["by"]],
      ['{"type":"deny","reason":5}', ["reason"]],
      ['{"type":"forward","answer":{"type":"answer","text":"x"}}', ["type"]],
      ['{"type":"perhaps"}', ["type"]],
      ["{}", ["type"]],
      ["null", []],
      ["7", []],
    ];
    for (const [text, path] of given) {
      await expect(of.decide("s1", "c0", fromWire(text)), text).rejects.toMatchObject(misuse(path));
      await expect(of.complete(token, fromWire(text)), text).rejects.toMatchObject(misuse(path));
    }
    for (const args of ["[1]", "7", '"x"']) {
      const edited = fromWire(`{"type":"approve","arguments":${args}}`);
      await expect(of.decide("s1", "c0", edited)).rejects.toMatchObject(misuse(["arguments"]));
    }
    expect(world.writes.length).toBe(before);
    expect((await (await of.decide("s1", "c0", { type: "approve", by: "ada" })).result).text).toBe("Done.");
  });

  test("a token cannot change the arguments of its call", async () => {
    const { of, pay } = await awaitingApproval();
    const token = await of.token("s1", "c0");
    await expect(of.complete(token, { type: "approve", arguments: { n: 9 } })).rejects.toMatchObject(
      misuse(["arguments"]),
    );
    const done = await of.complete(token, { type: "approve" });
    if (done.type === "completed") await done.turn.result;
    expect(pay.runs).toEqual([{ n: 0 }]);
  });

  test("options of cancel, and input of steer", async () => {
    const world = new World();
    const held = gate();
    const slow = counting("slow", { handler: () => held.wait() });
    const of = world.process(world.engine(worker("slow"), { tools: [slow.tool] }));
    const turn = await of.start("hi", { id: "s1" });
    await held.reached;
    const before = world.writes.length;
    for (const [text, path] of [
      ['{"reason":42}', ["reason"]],
      ['{"origin":{}}', ["origin"]],
      ['{"turnId":5}', ["turnId"]],
      ['{"turnID":"t"}', ["turnID"]],
      ["null", []],
    ] as const) {
      await expect(of.cancel("s1", fromWire(text)), text).rejects.toMatchObject(misuse(path));
    }
    const cause = { id: "e1", eventType: "paid", origin: { type: "process", processId: "p", eventType: "paid" } };
    for (const [input, path] of [
      [{ type: "cause", cause: { ...cause, text: 5 } }, ["cause", "origin", "sequence"]],
      [{ type: "cause", cause: { id: "e1" } }, ["cause", "eventType"]],
      [{ type: "cause" }, ["cause"]],
      [{ type: "shout", message: user("x") }, ["type"]],
      [{}, ["type"]],
      [null, []],
      [7, []],
    ] as const) {
      await expect(of.steer("s1", fromWire(JSON.stringify(input))), JSON.stringify(input)).rejects.toMatchObject(
        misuse(path),
      );
    }
    expect(world.writes.length).toBe(before);
    held.open();
    await turn.result;
  });

  test("rows with data of callers are validated when they are written", () => {
    const evidence = { requestId: "t", origin: "me", reason: "why" };
    expect(() => writeValue("cancels", { evidence, at: 1 })).not.toThrow();
    for (const [table, row, path] of [
      ["cancels", '{"evidence":{"requestId":"t","origin":"me","reason":7},"at":1}', ["evidence", "reason"]],
      ["inbox", '{"id":"i","input":{"type":"cause","cause":null},"state":"pending"}', ["input", "cause"]],
    ] as const) {
      const write = () => writeValue(table, fromWire(row));
      expect(write).toThrow(expect.objectContaining({ reason: "not_serializable", path: [table, ...path] }));
    }
    expect(() => checkReadable("sessions", fromWire("{}"))).toThrow(MisuseError);
  });
});

describe("options of verbs", () => {
  test("options of start override the fields of the session it is given", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    const given = newSession({ context: { who: "old" }, metadata: { a: 1 } });
    const begun = { ...given, thread: { ...given.thread, messages: [user("hi")] } };
    await (
      await of.start(begun, { id: "s1", context: { who: "new" } })
    ).result;
    expect((await of.get("s1"))?.session).toMatchObject({ context: { who: "new" }, metadata: { a: 1 } });
  });

  test("options of the wrong type, and unknown options, are refused", async () => {
    const { world, of } = await awaitingApproval();
    const before = world.writes.length;
    for (const options of [null, 7, "x", []]) {
      const given = fromWire(JSON.stringify(options));
      await expect(of.start("hi", given)).rejects.toThrow(MisuseError);
      await expect(of.reply("s1", "x", given)).rejects.toThrow(MisuseError);
      await expect(of.decide("s1", "c0", { type: "approve" }, given)).rejects.toThrow(MisuseError);
    }
    for (const name of ["sessionId", "emitTextDeltas", "emitToolDeltas", "includeRawChunks", "requestId"]) {
      const given: object = { [name]: name.startsWith("e") ? false : "x" };
      await expect(of.start("hi", given)).rejects.toMatchObject({ reason: "unknown_field", path: [name] });
    }
    for (const [name, value] of [
      ["repair", "two"],
      ["maxToolResultLength", "long"],
      ["version", "1"],
      ["key", 5],
      ["engine", 5],
    ] as const) {
      const given: object = { [name]: value };
      await expect(of.decide("s1", "c0", { type: "approve" }, given)).rejects.toMatchObject(misuse([name]));
    }
    for (const limit of [0, -1, 1.5, Number.NaN, fromWire('"5"')]) {
      await expect(of.list({ limit })).rejects.toMatchObject(misuse(["limit"]));
      await expect(of.messages("s1", { limit })).rejects.toMatchObject(misuse(["limit"]));
    }
    for (const after of ["x", "", "-5", {}]) {
      const given: object = { after };
      await expect(of.messages("s1", given)).rejects.toMatchObject(misuse(["after"]));
    }
    expect(world.writes.length).toBe(before);
  });

  test("messages continues after the cursor of the last page", async () => {
    const { of } = await awaitingApproval();
    const roles: string[] = [];
    for (let next: string | null = "-1"; next !== null;) {
      const given: object = { limit: 1, after: next };
      const page: Awaited<ReturnType<Process["messages"]>> = await of.messages("s1", given);
      roles.push(...page.items.map(({ role }) => role));
      next = page.next;
    }
    expect(roles).toEqual(["user", "assistant"]);
    expect((await of.messages("s1", { after: 0 })).items).toHaveLength(1);
  });

  test("options of decide override those of the turn that made the call", async () => {
    const { of, model } = await awaitingApproval({ temperature: 0.25, maxTokens: 100 });
    await (
      await of.decide("s1", "c0", { type: "approve" }, { maxTokens: 200 })
    ).result;
    expect(model.asked.map(({ temperature, maxTokens }) => [temperature, maxTokens])).toEqual([
      [0.25, 100],
      [0.25, 200],
    ]);
  });
});
