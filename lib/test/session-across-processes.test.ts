// A session that waits for an answer is written to a file by one process and continued by another.

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { fromJson, messageText, orThrow } from "everturn/model";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const run = promisify(execFile);

const program = `
import { askUser, engine, fake, fromJson, orThrow, toJson, tool } from "everturn";
import * as session from "everturn/session";
import { readFileSync, writeFileSync } from "node:fs";

const [, , step, file] = process.argv;
const asks = tool({ name: "asks", description: "Asks.", schema: { type: "object" }, handler: () => askUser("Which?") });
const script = step === "1" ? [{ type: "tool_call", name: "asks" }] : [{ type: "text", text: "Blue it is." }];
const of = engine({ adapter: fake({ script }), tools: [asks] });
const done = step === "1"
  ? await session.start(of, "Paint it.")
  : await session.reply(of, orThrow(fromJson(readFileSync(file, "utf8"), { as: "session" })), "Blue.");
writeFileSync(file, toJson("session", done.session));
`;

test("a session that waits for an answer is continued by another process", async () => {
  const folder = await mkdtemp(join(tmpdir(), "everturn-"));
  try {
    const [file, source] = [join(folder, "session.json"), join(root, "lib/.snippets", `process-${process.pid}.mjs`)];
    await mkdir(join(root, "lib/.snippets"), { recursive: true });
    await writeFile(source, program);
    for (const step of ["1", "2"]) {
      await run(process.execPath, [source, step, file]);
      const { status } = orThrow(fromJson(await readFile(file, "utf8"), { as: "session" }));
      expect(status).toBe(step === "1" ? "awaiting_user" : "completed");
    }
    const { thread } = orThrow(fromJson(await readFile(file, "utf8"), { as: "session" }));
    expect(thread.messages.map(messageText).slice(-3)).toEqual(["Which?", "Blue.", "Blue it is."]);
    await rm(source);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
