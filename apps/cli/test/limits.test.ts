// The flag `--limit` of `serve` and `work`: the limits reach the runtime, and invalid ones are usage errors.

import { loadSettings } from "@everturn/server";
import { afterAll, expect, it } from "vitest";

import { openWorkspace } from "../src/workspace.ts";
import { createPlace } from "./harness.ts";

const { run, remove } = createPlace();
afterAll(remove);

it("limits the turns of the workspace", async () => {
  const flags = { database: ":memory:", model: "offline:demo", limits: ["tenant.concurrency=1", "key.rate=1/1h"] };
  const environment = { HOME: "/", EVERTURN_OFFLINE_PACE: "0" };
  const { sessions, close } = await openWorkspace(await loadSettings({ flags, environment, folder: "/" }), environment);
  try {
    const first = await sessions.start("hello", { id: "a" });
    const second = await sessions.start("hello", { id: "b" });
    expect((await sessions.get("b"))?.openTurn?.limitWait?.limit).toBe("tenant");
    expect((await first.result).status).toBe("ended");
    expect((await second.result).status).toBe("ended");
  } finally {
    await close();
  }
});

it.each(["serve", "work"])("is refused by %s if it cannot be read", async (command) => {
  const { code, stderr } = await run([command, "--limit", "tenant.speed=1", "--database", ":memory:"]);
  expect(code).toBe(2);
  expect(stderr).toContain("--limit has to be SCOPE.concurrency=N or SCOPE.rate=N/PERIOD");
});
