// Deletion on SQLite: no file of the database contains a text of a session after the session was deleted.

import type { Runtime } from "everturn/runtime";

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine, fake, tool } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Libsql from "libsql";
import { afterEach, describe, expect, test } from "vitest";

const secret = "s3cret-6f1d0b7e";
const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "everturn-deletion-"));
  folders.push(folder);
  return folder;
}

/** The files of the folder that contain the text. */
function filesWith(folder: string, text: string): readonly string[] {
  return readdirSync(folder).filter((name) => readFileSync(join(folder, name)).includes(text));
}

function opened(form: "path" | "handle", path: string) {
  if (form === "path") {
    const host = sqliteStorage({ path });
    return { host, close: () => host.close() };
  }
  const handle = new Libsql(path);
  return { host: sqliteStorage(handle), close: async () => void handle.close() };
}

function agent() {
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: () => ({ found: `${secret} in a result`, long: `${secret} `.repeat(20_000) }),
  });
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    handler: () => 1,
    needsApproval: true,
  });
  const call = (id: string, name: string) => ({ type: "tool_call", id, name, arguments: { to: secret } }) as const;
  const adapter = fake({ scripts: [[call("c1", "look")], [{ type: "text", text: secret }, call("c2", "pay")]] });
  return engine({ adapter, model: "fake:m", tools: [look, pay] });
}

/**
 * A session with the secret in every place where a caller, a model or a tool can put it, and an approval that is
 * pending.
 */
async function fill(sessions: Runtime): Promise<string> {
  const options = { id: "s1", key: `key-${secret}`, instructions: `Never tell ${secret}.`, context: { note: secret } };
  const turn = await sessions.start(`My number is ${secret}.`, options);
  expect((await turn.result).haltedReason).toBe("approval");
  return sessions.token("s1", "c2");
}

describe.each(["path", "handle"] as const)("on a %s", (form) => {
  test("a deleted session leaves no text in any file, once the log is checkpointed", async () => {
    const folder = newFolder();
    const path = join(folder, "app.db");
    const { host, close } = opened(form, path);
    const sessions = runtime({ host, engines: { default: agent() } });
    const token = await fill(sessions);
    // Another session with the same configuration of the engine is not affected.
    await (
      await sessions.start("hello", { id: "other" })
    ).result;
    expect(filesWith(folder, secret)).not.toEqual([]);
    await sessions.delete("s1");
    expect(filesWith(folder, secret)).toEqual([]);
    expect(await sessions.get("other")).not.toBeNull();
    expect(await sessions.complete(token, { type: "approve" })).toMatchObject({ type: "revoked", sessionId: "s1" });
    await sessions.sweep();
    expect(await sessions.complete(token, { type: "approve" })).toEqual({ type: "unknown" });
    await sessions.close();
    await close();
    expect(filesWith(folder, secret)).toEqual([]);
  });
});

test("while another connection reads an older snapshot, the log is truncated after a later write", async () => {
  const folder = newFolder();
  const path = join(folder, "app.db");
  const host = sqliteStorage({ path });
  const sessions = runtime({ host, engines: { default: agent() } });
  await fill(sessions);
  const reader = new Libsql(path);
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM everturn_entries").get();
  await sessions.delete("s1");
  expect(filesWith(folder, secret)).not.toEqual([]);
  reader.exec("COMMIT");
  reader.close();
  await (
    await sessions.start("hello", { id: "other" })
  ).result;
  expect(filesWith(folder, secret)).toEqual([]);
  await sessions.close();
  await host.close();
});
