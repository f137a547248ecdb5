// `mcpServers` of a configuration file: the command connects to the servers, and only if the file is trusted.

import { existsSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterEach, beforeEach, expect, it } from "vitest";

import { createPlace } from "./harness.ts";

let place = createPlace();
beforeEach(() => {
  place.remove();
  place = createPlace();
  symlinkSync(fileURLToPath(new URL("../../../node_modules", import.meta.url)), join(place.folder, "node_modules"));
});
afterEach(() => place.remove());

const write = (name: string, text: string): void => writeFileSync(join(place.folder, name), text);

/** A server whose start leaves a file. */
const server = `
  import { writeFileSync } from "node:fs";
  import { McpServer } from "@modelcontextprotocol/server";
  import { serveStdio } from "@modelcontextprotocol/server/stdio";
  writeFileSync("started", process.env.WHO);
  serveStdio(() => {
    const server = new McpServer({ name: "names", version: "1.0.0" });
    server.registerTool("who", { annotations: { readOnlyHint: true } }, () => ({ content: [{ type: "text", text: "I am " + process.env.WHO }] }));
    return server;
  });`;
const entry = { command: process.execPath, args: ["server.mjs"], env: { WHO: "${WHO:-unset}" }, protocol: "legacy" };

it("starts no server of a file that is not trusted; then the model calls the tools of the server", async () => {
  write("server.mjs", server);
  write(
    "everturn.config.mjs",
    `import { engine, fake } from "everturn";
     // Calls the tool, then repeats its result.
     const adapter = { provider: "mine", stream: (request, call) => {
       const last = request.messages.at(-1);
       const step = last.role === "tool" ? { type: "text", text: String(last.content) } : { type: "tool_call", id: "c1", name: "names_who", arguments: {} };
       return fake({ script: [step] }).stream(request, call);
     } };
     export default {
       engines: { default: engine({ adapter, model: "mine:m" }) },
       mcpServers: { names: ${JSON.stringify(entry)} },
     };`,
  );
  const refused = await place.run(["run", "who?"]);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("is not trusted")]);
  expect(existsSync(join(place.folder, "started"))).toBe(false);
  await place.run(["trust"]);
  const ran = await place.run(["run", "--json", "who?"]);
  expect([ran.code, ran.stderr]).toEqual([0, expect.any(String)]);
  expect(ran.stdout).toContain("I am unset");
  // The program of the server is covered by the trust in the file that names it.
  write("server.mjs", `${server}\n`);
  expect((await place.run(["run", "who?"])).stderr).toContain("server.mjs");
});

it("reports entries that cannot be used", async () => {
  const failing = async (mcpServers: unknown) => {
    write("config.json", JSON.stringify({ mcpServers }));
    const { code, stderr } = await place.run(["run", "--config", "config.json", "hi"]);
    return [code, stderr.trim()];
  };
  expect(await failing([])).toEqual([2, expect.stringContaining("mcpServers has to be an object of servers by name")]);
  expect(await failing({ a: {} })).toEqual([
    2,
    expect.stringContaining("mcpServers.a has to be an object with command or url"),
  ]);
  expect(await failing({ a: { command: "x", color: 1 } })).toEqual([
    2,
    expect.stringMatching(/mcpServers\.a: .*color/),
  ]);
  expect(await failing({ a: { url: "http://x", command: "x" } })).toEqual([
    2,
    expect.stringContaining("either command (stdio) or url (http)"),
  ]);
  expect(await failing({ a: { url: "https://x", headers: { Authorization: "Bearer ${NO_SUCH_TOKEN}" } } })).toEqual([
    2,
    expect.stringContaining("the variable NO_SUCH_TOKEN is not set"),
  ]);
  expect(await failing({ gone: { command: "/does/not/exist", protocol: "legacy" } })).toEqual([
    2,
    expect.stringContaining("the MCP server gone cannot be reached"),
  ]);
});
