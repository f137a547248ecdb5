// What remains of a session after its deletion: neither the branches of its chat nor the replies that its turns have
// cached.

import type { HostStorage, Runtime } from "everturn/runtime";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { agentTool, engine, fake } from "everturn";
import { storageTables } from "everturn/advanced";
import { createHandler } from "everturn/http";
import { responseCache } from "everturn/middleware";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { afterEach, describe, expect, test } from "vitest";

import { chatDialects } from "../dialects.ts";
import { handModel } from "../hand-model.ts";
import { says } from "../runs.ts";

const closers: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const hosts: { readonly [name: string]: () => HostStorage } = {
  memory: () => memoryStorage(),
  sqlite: () => {
    const folder = mkdtempSync(join(tmpdir(), "everturn-deleted-"));
    closers.push(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
    const storage = sqliteStorage({ path: join(folder, "sessions.db") });
    closers.push(() => storage.close());
    return storage;
  },
};

/** All values of the storage as one text. */
async function storedText(storage: HostStorage): Promise<string> {
  const tables = Object.keys(storageTables).filter((name): name is keyof typeof storageTables => name in storageTables);
  const rows = await storage.read(tables.map((table) => ({ table, prefix: [] })));
  return rows
    .flat()
    .map(({ value }) => value)
    .join("\n");
}

describe.each(Object.keys(hosts))("a deleted chat on %s", (name) => {
  const token = "a-secret-bearer-token";

  function chatServer() {
    const host = hosts[name]?.() ?? memoryStorage();
    const scripts = ["first", "second", "third", "fourth", "fifth"].map((word) => says(`secret ${word} reply`));
    const sessions = runtime({ host, engines: { default: engine({ adapter: fake({ scripts }), model: "fake:m" }) } });
    closers.push(() => sessions.close());
    const handler = createHandler({ sessions, dialects: chatDialects, auth: [{ token }] });
    const ask = async (method: string, path: string, body?: object) => {
      const answer = await handler(
        new Request(`http://localhost${path}`, {
          method,
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
      );
      return { status: answer.status, text: await answer.text() };
    };
    const post = (trigger: "submit-message" | "regenerate-message", id = "chat") =>
      ask("POST", "/ui/chat", {
        id,
        trigger,
        messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Tell me" }] }],
      });
    return { host, sessions, ask, post };
  }

  test("has no branch that can be read, and leaves no text of one", async () => {
    const { host, sessions, ask, post } = chatServer();
    await post("submit-message");
    await post("regenerate-message");
    await post("regenerate-message");
    expect((await ask("GET", "/sessions/chat~branch-2")).text).toContain("secret third reply");
    expect((await ask("DELETE", "/sessions/chat")).status).toBe(204);
    for (const id of ["chat", "chat~branch-1", "chat~branch-2"]) {
      expect((await ask("GET", `/sessions/${id}`)).status).toBe(404);
      expect((await ask("GET", `/sessions/${id}/messages`)).status).toBe(404);
    }
    expect((await ask("GET", "/ui/chat/chat")).text).toContain(
      '"messages":[],"previous":null,"status":"idle","version":0',
    );
    expect((await sessions.list()).items).toEqual([]);
    expect(await storedText(host)).not.toContain("secret");
  });

  test("is not continued by a new chat of the same id", async () => {
    const { ask, post } = chatServer();
    await post("submit-message");
    await post("regenerate-message");
    await ask("DELETE", "/sessions/chat");
    await post("submit-message");
    const { text } = await ask("GET", "/ui/chat/chat");
    expect(text).toContain("secret third reply");
    expect(text).not.toContain("secret second reply");
  });

  test("is deleted with its branches by the library too, also if one of them was deleted before", async () => {
    const { sessions, post } = chatServer();
    await post("submit-message");
    for (let times = 0; times < 3; times += 1) await post("regenerate-message");
    await sessions.delete("chat~branch-1");
    expect((await sessions.list()).items.map(({ id }) => id).toSorted()).toEqual([
      "chat",
      "chat~branch-2",
      "chat~branch-3",
    ]);
    await sessions.delete("chat");
    expect((await sessions.list()).items).toEqual([]);
  });

  test("keeps forks of a program, other chats, and sessions whose names are alike", async () => {
    const { sessions, post } = chatServer();
    await post("submit-message");
    await post("regenerate-message");
    await post("submit-message", "chat2");
    const fork = await sessions.fork("chat", { id: "copy" });
    const copyOfBranch = await sessions.fork("chat~branch-1", { id: "copy-of-branch" });
    // Not a fork of the chat: a program has named it so.
    await sessions.fork("chat2", { id: "chat~branch-7" });
    await sessions.fork("chat", { id: "chat~branch-x" });
    await sessions.tenant("other").start("Mine.", { id: "chat~branch-1" });
    await sessions.delete("chat");
    expect((await sessions.list()).items.map(({ id }) => id).toSorted()).toEqual([
      "chat2",
      "chat~branch-7",
      "chat~branch-x",
      fork,
      copyOfBranch,
    ]);
    expect(await sessions.tenant("other").get("chat~branch-1")).not.toBeNull();
  });

  test("leaves no branch if it is deleted while a message is regenerated", async () => {
    const host = hosts[name]?.() ?? memoryStorage();
    const engines = { default: engine({ adapter: fake({ scripts: [says("one"), says("two")] }), model: "fake:m" }) };
    let deleting: (() => Promise<void>) | null = null;
    const between: HostStorage = {
      ...host,
      write: async (batch) => {
        const isFork = batch.puts.some(({ table, key }) => table === "sessions" && key[1] === "chat~branch-1");
        const work = isFork ? deleting : null;
        deleting = null;
        await work?.();
        return host.write(batch);
      },
    };
    const sessions = runtime({ host: between, engines });
    const other = runtime({ host, engines, drive: false });
    closers.push(
      () => sessions.close(),
      () => other.close(),
    );
    const handler = createHandler({ sessions, dialects: chatDialects, auth: "none" });
    const post = (trigger: string) =>
      handler(
        new Request("http://localhost/ui/chat", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            id: "chat",
            trigger,
            messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Tell me" }] }],
          }),
        }),
      );
    await (await post("submit-message")).text();
    deleting = () => other.delete("chat");
    expect((await post("regenerate-message")).status).toBe(404);
    expect((await other.list()).items).toEqual([]);
  });
});

describe.each(Object.keys(hosts))("cached replies of a deleted session on %s", (name) => {
  function cached(storage: HostStorage, replies: readonly string[]) {
    const adapter = fake({ scripts: replies.map((text) => says(text)) });
    const middleware = [responseCache({ storage })];
    const sessions = runtime({
      host: storage,
      engines: { default: engine({ adapter, model: "fake:m", middleware }) },
    });
    closers.push(() => sessions.close());
    return { adapter, sessions };
  }
  const answer = async (sessions: Runtime, id: string) => (await (await sessions.start("Tell me", { id })).result).text;

  test("are not read by other sessions, and leave no text", async () => {
    const storage = hosts[name]?.() ?? memoryStorage();
    const { sessions, adapter } = cached(storage, ["secret reply", "another reply"]);
    expect(await answer(sessions, "a")).toBe("secret reply");
    expect(await answer(sessions, "b")).toBe("secret reply");
    expect(adapter.calls).toHaveLength(1);
    await sessions.delete("a");
    await sessions.delete("b");
    expect(await storedText(storage)).not.toContain("secret");
    expect(await answer(sessions, "c")).toBe("another reply");
    expect(await answer(sessions, "d")).toBe("another reply");
    expect(adapter.calls).toHaveLength(2);
  });

  test("are deleted by a process without the middleware", async () => {
    const storage = hosts[name]?.() ?? memoryStorage();
    const { sessions } = cached(storage, ["secret reply", "another reply"]);
    await answer(sessions, "a");
    const plain = runtime({ host: storage, engines: { default: engine() }, drive: false });
    closers.push(() => plain.close());
    await plain.delete("a");
    expect(await storedText(storage)).not.toContain("secret");
    expect(await answer(sessions, "b")).toBe("another reply");
  });

  test("are not stored if the session is deleted while the model answers", async () => {
    const storage = hosts[name]?.() ?? memoryStorage();
    const model = handModel();
    const agent = engine({ adapter: model, model: "fake:m", middleware: [responseCache({ storage })] });
    const sessions = runtime({ host: storage, engines: { default: agent } });
    closers.push(() => sessions.close());
    const turn = await sessions.start("Tell me", { id: "a" });
    const gone = expect(turn.result).rejects.toMatchObject({ reason: "not_found" });
    const call = await model.call(1);
    await call.say("secret reply");
    const other = runtime({ host: storage, engines: { default: engine() }, drive: false });
    closers.push(() => other.close());
    await other.delete("a");
    call.finish();
    await gone;
    expect(await storedText(storage)).not.toContain("secret");
  });

  test("of agents that ran in its tools are deleted too", async () => {
    const storage = hosts[name]?.() ?? memoryStorage();
    const middleware = [responseCache({ storage })];
    const inner = engine({ adapter: fake({ scripts: [says("secret finding")] }), model: "fake:m", middleware });
    const research = agentTool({ name: "research", description: "Researches.", engine: inner });
    const adapter = fake({
      scripts: [[{ type: "tool_call", id: "c1", name: "research", arguments: { task: "Find it" } }], says("Done.")],
    });
    const sessions = runtime({
      host: storage,
      engines: { default: engine({ adapter, model: "fake:m", tools: [research] }) },
    });
    closers.push(() => sessions.close());
    await answer(sessions, "a");
    expect(await storedText(storage)).toContain("secret finding");
    await sessions.delete("a");
    expect(await storedText(storage)).not.toContain("secret");
  });
});
