import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { afterEach, describe, expect, test } from "vitest";

import { EngineError } from "../../model/internal.ts";
import { onDemand, whenLoaded } from "./on-demand.ts";

describe("code on demand", () => {
  test("is a promise until it is loaded, and there at once after that", async () => {
    const code = onDemand("tests", () => Promise.resolve("loaded"));

    expect(code()).toBeInstanceOf(Promise);
    await code();

    expect(code()).toBe("loaded");
    expect(await whenLoaded(code(), (text) => Promise.resolve(text.length))).toBe(6);
  });

  test("that cannot be loaded rejects with an engine error, and the next call tries again", async () => {
    let tries = 0;
    const code = onDemand("tools", async () => {
      tries += 1;
      if (tries === 1) throw new TypeError("Failed to fetch dynamically imported module");
      return tries;
    });

    const error = await Promise.resolve(code()).catch((reason: unknown) => reason);

    expect(error).toBeInstanceOf(EngineError);
    expect(error).toMatchObject({
      message: expect.stringMatching(/^the code of tools could not be loaded/),
      failure: { reason: "invalid_engine", cause: { message: "Failed to fetch dynamically imported module" } },
    });
    expect(await code()).toBe(2);
  });
});

describe("a package without the file that runs tools", () => {
  const folder = mkdtempSync(join(tmpdir(), "everturn-on-demand-"));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test("answers tool calls of a turn in memory as not run, and leaves a durable turn open", () => {
    cpSync(join(import.meta.dirname, "../../../dist"), folder, { recursive: true });
    const [file = ""] = readdirSync(folder).filter((name) => /^call-performers-[\w-]+\.js$/.test(name));
    rmSync(join(folder, file));
    const at = (name: string) => JSON.stringify(pathToFileURL(join(folder, name)));
    const program = `
      import { chat, engine, fake, tool } from ${at("index.js")};
      import { memoryStorage } from ${at("host-memory.js")};
      import { runtime } from ${at("runtime.js")};
      let runs = 0;
      const clock = tool({ name: "clock", description: "The time.", schema: { type: "object" }, handler: () => (runs += 1) });
      const scripts = [[{ type: "tool_call", name: "clock", arguments: {} }], [{ type: "text", text: "done" }]];
      const agent = () => engine({ adapter: fake({ scripts }), model: "fake:m", tools: [clock] });
      const { haltedReason, finalResponse, steps } = await chat(agent(), "What time is it?");
      const [{ status, content }] = steps[0].toolResults;
      const sessions = runtime({ host: memoryStorage(), engines: { default: agent() } });
      const turn = await sessions.start("What time is it?");
      const durable = await turn.result.catch(({ name, reason }) => ({ name, reason }));
      const [{ turnStatus }] = (await sessions.list()).items;
      console.log(JSON.stringify({ haltedReason, text: finalResponse.outputText, status, content, runs, durable, turnStatus }));
      process.exit(0);
    `;
    const output = execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });

    expect(JSON.parse(output)).toEqual({
      haltedReason: "completed",
      text: "done",
      status: "not_run",
      content: expect.stringContaining("the code of tools and hooks could not be loaded"),
      runs: 0,
      durable: { name: "EngineError", reason: "invalid_engine" },
      turnStatus: "queued",
    });
  });
});
