// `await using` calls `close()` of runtimes, storages, connections and servers. The tests call the method of the
// symbol: Node 20 has the symbol, and not the statement.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine, fake, says } from "everturn";
import { mcpClient, mcpHandler } from "everturn/mcp";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { afterEach, describe, expect, test, vi } from "vitest";

import { closeable } from "../src/core/model/closeable.ts";

const agent = engine({ adapter: fake({ script: [says("Hello.")] }), model: "fake:m" });

afterEach(() => vi.unstubAllGlobals());

describe("await using closes", () => {
  test("a runtime, and the runtime of a tenant", async () => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const turn = await sessions.start("hi");
    await turn.result;
    await sessions.tenant("acme")[Symbol.asyncDispose]();
    await sessions[Symbol.asyncDispose]();
    // A closed runtime accepts turns for other processes, and drives none.
    const later = await sessions.reply(turn.sessionId, "again");
    await expect(later.result).rejects.toMatchObject({ reason: "lease_lost" });
  });

  test("a storage on a file", async () => {
    const folder = await mkdtemp(join(tmpdir(), "everturn-using-"));
    const storage = sqliteStorage({ path: join(folder, "sessions.db") });
    await storage.open();
    await storage[Symbol.asyncDispose]();
    await expect(storage.read([])).rejects.toMatchObject({ reason: "storage_failed" });
    await rm(folder, { recursive: true });
  });

  test("a connection to an MCP server, and an MCP endpoint", async () => {
    const client = mcpClient({ name: "docs", server: { url: "http://127.0.0.1:1/mcp" } });
    await client[Symbol.asyncDispose]();
    await expect(client.refresh()).rejects.toThrow(/closed/);
    const handler = await mcpHandler({ agents: { answer: { engine: agent, description: "Answers." } } });
    await expect(handler[Symbol.asyncDispose]()).resolves.toBeUndefined();
  });
});

test("a platform without the symbol gets the value as it is", () => {
  const native = Symbol;
  vi.stubGlobal(
    "Symbol",
    Object.assign((name: string) => native(name), { for: native.for }),
  );
  const value = closeable({ close: async () => undefined });
  vi.unstubAllGlobals();
  expect(Reflect.ownKeys(value)).toEqual(["close"]);
});
