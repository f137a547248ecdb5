// recover with an id, while other writers change the session.

import { expect, test } from "vitest";

import { thinker, says, World, writes } from "../../../test/runtime/world.ts";
import { newSession } from "../../core/model/index.ts";

/**
 * A failed session, and a process before whose first `changes` writes of the session row another writer changes the
 * session.
 */
async function changing(changes: number) {
  const world = new World();
  await world.put("s1", { ...newSession({ id: "s1" }), status: "error" });
  let attempts = 0;
  const holds = async (write: Parameters<ReturnType<typeof writes>>[0]): Promise<void> => {
    if (!writes("sessions")(write)) return;
    attempts += 1;
    const [row] = await world.rows("sessions", ["", "s1"]);
    if (row !== undefined && attempts <= changes) await world.raw("sessions", { ...row, tag: row.tag + 1 }, row.value);
  };
  const process = world.process(world.engine(thinker(() => says("Done."))), { holds });
  return { process, attempts: () => attempts };
}

test("a session that another writer changes meanwhile is read again and recovered", async () => {
  const { process, attempts } = await changing(1);
  expect(await process.recover("s1")).toMatchObject({ usable: true });
  expect(attempts()).toBe(2);
});

test("a session that other writers change before every attempt is reported as a conflict after a few attempts", async () => {
  const { process, attempts } = await changing(50);
  await expect(process.recover("s1")).rejects.toMatchObject({
    reason: "conflict",
    message: expect.stringMatching(/session s1 was changed concurrently .* repeat the call/),
  });
  expect(attempts()).toBe(5);
  expect(await process.get("s1")).toMatchObject({ session: { status: "error" } });
});
