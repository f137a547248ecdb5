// The configuration file as a user of the command sees it: trust, engines, tools, storage, authentication.

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { engine, fake, tool } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { createPlace, ended, says } from "./harness.ts";

let place = createPlace();
beforeEach(() => {
  place.remove();
  place = createPlace();
  symlinkSync(fileURLToPath(new URL("../../../node_modules", import.meta.url)), join(place.folder, "node_modules"));
});
afterEach(() => place.remove());

const write = (name: string, text: string): void => writeFileSync(join(place.folder, name), text);

/** A module with two engines that have their own adapter, and one without. */
const engines = `
  import { engine, fake, tool } from "everturn";
  import { defineConfig } from "everturn/config";
  const speaking = (textOf) => ({ provider: "mine", stream: (request, call) => fake({ script: [{ type: "text", text: textOf(request) }] }).stream(request, call) });
  const answering = (text, tools = []) => engine({ adapter: speaking(() => text), model: "mine:m", tools });
  const greet = tool({ name: "greet", description: "Greets.", schema: { type: "object", properties: {} }, handler: () => "hello" });
`;
const fakeEngines = `${engines}
  export default defineConfig({ engines: { default: answering("I am the default."), other: answering("I am the other.") }, database: "own.db" });`;

describe("a configuration file that was found in the folder", () => {
  it("is neither read nor run until it is trusted: the command exits with 2 and names everturn trust", async () => {
    write(
      "everturn.config.mjs",
      `import { writeFileSync } from "node:fs"; writeFileSync("${join(place.folder, "ran")}", ""); export default { model: "mine:m" };`,
    );
    for (const argv of [
      ["run", "hello"],
      ["chat"],
      ["sessions"],
      ["serve"],
      ["work"],
      ["replay", "--open"],
      ["stats"],
      ["migrate"],
      ["doctor"],
    ]) {
      const { code, stdout, stderr } = await place.run(argv);
      expect([argv[0], code]).toEqual([argv[0], 2]);
      expect(stdout + stderr).toMatch(/everturn\.config\.mjs is not trusted[\s\S]*`everturn trust`/);
    }
    expect((await place.run(["doctor"])).stdout).toMatch(
      /✗ +config .*not trusted[\s\S]*✓ +database [\s\S]*model +offline:demo/,
    );
    expect(existsSync(join(place.folder, "ran"))).toBe(false);
    const trusted = await place.run(["trust"]);
    expect([trusted.code, trusted.stdout]).toEqual([
      0,
      expect.stringMatching(/^trusted \S+everturn\.config\.mjs, sha256 [0-9a-f]{16}\n$/),
    ]);
    expect(existsSync(join(place.folder, "ran"))).toBe(false);
    expect((await place.run(["run", "hello"])).stderr).toMatch(/unknown model "mine:m"/);
    expect(existsSync(join(place.folder, "ran"))).toBe(true);
  });

  it("is ignored with --no-config, and used with --config", async () => {
    write("everturn.config.mjs", fakeEngines);
    expect((await place.run(["--no-config", "run", "hello"])).stdout).toMatch(/^You said: hello/);
    expect((await place.run(["run", "--config", "everturn.config.mjs", "hello"])).stdout).toBe("I am the default.\n");
    expect(
      (await place.run(["run", "hello"], { environment: { EVERTURN_CONFIG: "everturn.config.mjs" } })).stdout,
    ).toBe("I am the default.\n");
    expect((await place.run(["run", "hello"])).code).toBe(2);
  });

  it("needs trust again when it or a module that it imports has changed", async () => {
    write("tools.mjs", `export const words = ["one"];`);
    write("everturn.config.mjs", `import "./tools.mjs"; export default {};`);
    expect((await place.run(["trust"])).stdout).toMatch(/\n {2}with tools\.mjs\n$/);
    expect((await place.run(["sessions"])).code).toBe(0);
    write("tools.mjs", `export const words = ["two"];`);
    const { code, stderr } = await place.run(["sessions"]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/has changed since it was trusted \(tools\.mjs\)/)]);
    expect((await place.run(["trust", "--remove"])).stdout).toBe("this folder is trusted no more\n");
    expect((await place.run(["sessions"])).stderr).toMatch(/is not trusted/);
  });

  it("is refused without being opened if it is not a regular file, which may never end", async () => {
    execFileSync("mkfifo", [join(place.folder, "everturn.config.json")]);
    for (const argv of [["sessions"], ["trust"]]) {
      const { code, stderr } = await place.run(argv);
      expect([code, stderr]).toEqual([2, expect.stringMatching(/everturn\.config\.json is not a regular file/)]);
    }
    expect((await place.run(["sessions", "--no-config"])).code).toBe(0);
  });

  it("in JavaScript with import statements names .mjs if the project is CommonJS", async () => {
    write("package.json", `{ "type": "commonjs" }`);
    rmSync(join(place.folder, "node_modules"));
    write("everturn.config.js", "export default {};");
    const child = place.start(["sessions", "--config", "everturn.config.js"]);
    child.stdin.end();
    const { code, stderr } = await ended(child);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/name the file \.mjs, or set "type": "module"/)]);
  });

  it("is trusted at the terminal by the answer yes, and not by another one", async () => {
    write("everturn.config.json", `{ "model": "offline:demo" }`);
    const questions: string[] = [];
    const answering = (answer: boolean) => ({
      confirm: async (question: string) => (questions.push(question), answer),
    });
    expect((await place.run(["sessions"], answering(false))).code).toBe(2);
    const agreed = await place.run(["sessions"], answering(true));
    expect([agreed.code, agreed.stderr]).toEqual([0, expect.stringMatching(/is not trusted yet\. It can run code/)]);
    expect((await place.run(["sessions"])).code).toBe(0);
    write("everturn.config.json", `{ "port": 1 }`);
    const raced = async () => {
      write("everturn.config.json", `{ "port": 2 }`);
      return true;
    };
    expect((await place.run(["sessions"], { confirm: raced })).code).toBe(2);
    expect(questions).toEqual(["Trust it as it is now?", "Trust it as it is now?"]);
  });

  it("and a .env file do not redirect an API key of the environment", async () => {
    const received: string[] = [];
    const server = createServer((request, response) => {
      received.push(String(request.headers.authorization));
      response.writeHead(401).end();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
    write("everturn.config.json", JSON.stringify({ model: "openai:m", baseUrls: { openai: url } }));
    write(".env", `OPENAI_BASE_URL=${url}\nOPENAI_API_KEY=sk-from-file\n`);
    const environment = { OPENAI_API_KEY: "sk-of-the-environment" };
    expect((await place.run(["run", "hello"], { environment })).code).toBe(2);
    const report = await place.run(["doctor", "--no-config"], { environment });
    expect(report.stdout).not.toContain(url);
    expect(received).toEqual([]);
    await place.run(["trust"]);
    const trusted = place.start(["run", "hello"], environment);
    trusted.stdin.end();
    await ended(trusted);
    expect(received[0]).toBe("Bearer sk-of-the-environment");
    server.close();
  });
});

describe("engines of the configuration file", () => {
  const run = (...argv: readonly string[]) => place.run(["run", "--config", "everturn.config.mjs", ...argv]);

  it("run the turns of run, show and sessions, in the storage of the file", async () => {
    write("everturn.config.mjs", fakeEngines);
    expect((await run("--session", "s1", "hello")).stdout).toBe("I am the default.\n");
    expect((await run("--engine", "other", "--session", "s2", "hello")).stdout).toBe("I am the other.\n");
    const { code, stderr } = await run("--engine", "third", "hello");
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/no engine "third" \(--engine\); the engines are default, other/),
    ]);
    expect((await place.run(["sessions", "--config", "everturn.config.mjs"])).stdout).toMatch(
      /s2 +completed[\s\S]*s1 +completed/,
    );
    expect(existsSync(join(place.folder, "own.db"))).toBe(true);
    expect((await place.run(["replay", "s2", "--engine", "--config", "everturn.config.mjs"])).stdout).toMatch(
      /identical to the record/,
    );
  });

  it("without an adapter get the model of the settings, and --model replaces an adapter", async () => {
    write(
      "everturn.config.mjs",
      `${engines} export default { engines: { default: engine({ tools: [greet] }), other: answering("mine", [greet]) }, database: "own.db" };`,
    );
    expect((await run("greet")).stdout).toMatch(/`greet`: hello/);
    expect((await place.run(["doctor", "--config", "everturn.config.mjs"])).stdout).toMatch(
      /tools +greet\n[\s\S]*scripted.*engine default of default, other\n[\s\S]*maxTurns +- +engine default\n/,
    );
    expect((await run("--engine", "other", "greet")).stdout).toBe("mine\n");
    expect((await run("--engine", "other", "--model", "offline:demo", "greet")).stdout).toMatch(/`greet`: hello/);
    expect((await run("--model", "openai:m", "greet")).stderr).toMatch(/openai:m \(--model\) needs an API key/);
  });

  it("get the tools, the instructions and the limits of the file", async () => {
    const echo = `engine({ adapter: speaking(({ messages, tools }) => JSON.stringify([messages[0].content, tools.map(({ name }) => name)])), model: "mine:m" })`;
    write(
      "everturn.config.mjs",
      `${engines} export default { engines: { default: ${echo} }, tools: [greet], instructions: "Be brief.", database: "own.db" };`,
    );
    expect((await run("hello")).stdout).toMatch(/Be brief\..*greet/);
    expect((await run("--instructions", "Be long.", "hello")).stdout).toMatch(/Be long\./);
  });

  it.each([
    ["engines: {}", /engines has to have an engine named default/],
    ["engines: { default: {} }", /engines\.default has to be an engine: pass its fields to engine/],
    ["engines: [1]", /engines has to be an object of engines by name, not \[1\]/],
    ["storage: 7", /storage has to be a storage/],
    ["storage: () => 7", /storage: the function has to return a storage/],
    ["storage: () => 7, database: 'a.db'", /storage and database exclude each other/],
    ["auth: [], tokens: '0123456789abcdef'", /auth and tokens exclude each other/],
    ["auth: { token: 'hunter2' }", /auth has to be a list of \{ token/],
    ["runtime: { host: 1 }", /runtime has no option host; the options are/],
    ["http: { auth: 1 }", /http has no option auth; the options are/],
    [
      "engines: { default: answering('x', [greet]) }, tools: [{ ...greet }]",
      /the engine default has a tool named "greet" already/,
    ],
    ["tools: [7]", /tools has to be a path, a tool, or a list of them/],
  ])("{ %s } is rejected with its field", async (fields, expected) => {
    write("everturn.config.mjs", `${engines} export default { ${fields} };`);
    const { code, stderr } = await run("hello");
    expect([code, stderr]).toEqual([2, expect.stringMatching(expected)]);
    expect(stderr).not.toContain("hunter2");
  });
});

describe("replay --open", () => {
  it("checks the open turns of the database against the engines of the file, and changes nothing", async () => {
    write(
      "everturn.config.mjs",
      `${engines} export default { engines: { default: answering("a"), old: answering("b", [greet]) }, database: "own.db" };`,
    );
    write(
      "next.mjs",
      `${engines} export default { engines: { default: answering("a"), old: answering("b") }, database: "own.db" };`,
    );
    const path = join(place.folder, "own.db");
    const replay = (file: string, ...argv: readonly string[]) =>
      place.run(["replay", "--open", "--config", file, ...argv]);
    const missing = await replay("everturn.config.mjs");
    expect([missing.code, missing.stderr, existsSync(path)]).toEqual([
      2,
      expect.stringMatching(/cannot open the database .*there is no file/),
      false,
    ]);
    await place.run(["run", "--config", "everturn.config.mjs", "--session", "ended", "hello"]);
    expect((await replay("next.mjs")).stdout).toMatch(/^✓ \S+own\.db: there are no open turns\n$/);
    const storage = sqliteStorage({ path });
    const greet = tool({ name: "greet", description: "Greets.", schema: { type: "object" }, handler: () => "hello" });
    const accepting = runtime({
      host: storage,
      engines: { old: engine({ adapter: fake({ script: [] }), model: "mine:m", tools: [greet] }) },
      drive: false,
    });
    await accepting.start("hi", { id: "s1", engine: "old" });
    await storage.close();
    const before = readFileSync(path);
    const same = await replay("everturn.config.mjs");
    expect([same.code, same.stdout]).toEqual([
      0,
      expect.stringMatching(/: 1 open turn can be continued by this code\n$/),
    ]);
    const next = await replay("next.mjs");
    expect([next.code, next.stdout]).toEqual([
      1,
      expect.stringMatching(/^✗ turn turn-\w+ of session s1 \(engine old, 0 rows\): this code has no tool greet\n/),
    ]);
    expect(JSON.parse((await replay("next.mjs", "--json")).stdout)).toMatchObject({
      turns: 1,
      same: 0,
      problems: [{ sessionId: "s1", status: "missing", missing: ["tool greet"] }],
    });
    expect(readFileSync(path).equals(before)).toBe(true);
    const custom = (storage: string) =>
      write(
        "custom.mjs",
        `import { sqliteStorage } from "everturn/sqlite"; ${engines} export default { engines: { default: answering("a") }, storage: ${storage} };`,
      );
    custom(`({ readOnly }) => sqliteStorage({ path: ${JSON.stringify(join(place.folder, "none.db"))}, readOnly })`);
    expect((await replay("custom.mjs")).stderr).toMatch(/there is no file .*none\.db/);
    custom(`sqliteStorage({ path: ${JSON.stringify(join(place.folder, "none.db"))} })`);
    write("built.mjs", readFileSync(join(place.folder, "custom.mjs"), "utf8"));
    expect((await replay("built.mjs")).stderr).toMatch(/this command only reads, .*write a function/);
    expect(existsSync(join(place.folder, "none.db"))).toBe(false);
    expect((await place.run(["replay"])).stderr).toMatch(/name a file or a session, or use --open/);
    expect((await replay("next.mjs", "s1")).code).toBe(2);
  });
});

describe("serve with a configuration file", () => {
  it("runs its engines over its storage, authenticates with its function, and serves the files of its folder", async () => {
    write(
      "everturn.config.mjs",
      `${engines}
       import { sqliteStorage } from "everturn/sqlite";
       export default defineConfig({
         engines: { default: answering("Served.") },
         storage: () => sqliteStorage({ path: ${JSON.stringify(join(place.folder, "custom.db"))} }),
         auth: (request) => (request.headers.get("x-user") === "ada" ? { tenant: "acme", name: "ada" } : null),
         http: { contentHosts: ["cdn.example.com"], openai: { listed: answering("Completed.") } },
         static: "pages",
         port: 0,
       });`,
    );
    rmSync(join(place.folder, "pages"), { recursive: true, force: true });
    symlinkSync(place.folder, join(place.folder, "pages"));
    write("index.html", "<title>Chat</title>");
    const child = place.start(["serve", "--config", "everturn.config.mjs"]);
    const url = /http:\S+/.exec(await says(child.stdout, /listens on http:\S+\n/))?.[0] ?? "";
    const page = await fetch(url);
    expect([page.status, page.headers.get("content-type"), await page.text()]).toEqual([
      200,
      "text/html; charset=utf-8",
      "<title>Chat</title>",
    ]);
    const send = (headers: { readonly [name: string]: string }, body = `{"id":"s1","input":"hi"}`) =>
      fetch(`${url}/sessions`, {
        method: "POST",
        headers: { "content-type": "application/json", prefer: "wait=10", ...headers },
        body,
      });
    const image = (host: string) => {
      const source = { type: "url", url: `https://${host}/cat.png` };
      const parts = [{ type: "image", image: { source, mimeType: "image/png" } }];
      return JSON.stringify({ input: [{ role: "user", content: parts }] });
    };
    expect((await send({})).status).toBe(401);
    expect(await (await send({ "x-user": "ada" })).json()).toMatchObject({ text: "Served." });
    expect((await send({ "x-user": "ada" }, image("cdn.example.com"))).status).toBe(200);
    expect((await send({ "x-user": "ada" }, image("other.example.com"))).status).toBe(400);
    const models = await fetch(`${url}/v1/models`, { headers: { "x-user": "ada" } });
    expect(await models.json()).toMatchObject({ data: [{ id: "listed" }] });
    const over = ended(child);
    child.kill("SIGTERM");
    expect((await over).code).toBe(0);
    expect(existsSync(join(place.folder, "custom.db"))).toBe(true);
  });
});

describe("a configuration file in TypeScript", () => {
  const typescript = `${fakeEngines.replace("(textOf)", "(textOf: (request: object) => string)")}`;

  it.each([
    ["of a CommonJS project, as npm init writes it", "everturn.config.ts", `{ "type": "commonjs" }`],
    ["imported by a configuration file in JavaScript", "everturn.config.mjs", `{ "type": "module" }`],
  ])("is loaded by Node, or with tsx of the project: %s", async (_, name, manifest) => {
    write("package.json", manifest);
    write("agents.ts", typescript);
    write(name, `import config from "./agents.ts";\nexport default config;\n`);
    const child = place.start(["run", "--config", name, "hello"]);
    child.stdin.end();
    const { code, stdout, stderr } = await ended(child);
    expect([code, stdout, stderr]).toEqual([0, "I am the default.\n", expect.not.stringContaining("Warning")]);
  });

  it.skipIf("typescript" in process.features)("without tsx names Node 22.18, tsx and .mjs", async () => {
    rmSync(join(place.folder, "node_modules"));
    write("everturn.config.ts", "const port: number = 0; export default { port };");
    const child = place.start(["sessions", "--config", "everturn.config.ts"]);
    child.stdin.end();
    const { code, stderr } = await ended(child);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/use Node 22\.18 or later, or add the loader tsx .*\.mjs/),
    ]);
  });
});

it("the trust store is in the configuration folder of the user", async () => {
  write("everturn.config.json", "{}");
  await place.run(["trust"]);
  const store: unknown = JSON.parse(readFileSync(join(place.folder, "everturn", "trusted.json"), "utf8"));
  expect(store).toMatchObject({ version: 1, folders: { [place.folder]: { "everturn.config.json": {} } } });
});
