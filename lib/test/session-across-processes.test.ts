// A session that waits for an answer is written to a file by one process and continued by another.

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { fromJson, messageText, orThrow } from "everturn";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const run = promisify(execFile);

const program = `
import { askUser, engine, fake, fromJson, orThrow, toJson, tool } from "everturn";
import { session } from "everturn";
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

// A protocol of one's own: a guess is recorded, a call of a tool waits for an approval, and the value of the run says
// how many records the second process has.
const guessing = `
import { engine, fake, fromJson, orThrow, toJson, tool, user } from "everturn";
import { ChatContextProjector, chatProtocol, ending, replyMessage, replyStepEnd } from "everturn/advanced";
import { session } from "everturn";
import { readFileSync, writeFileSync } from "node:fs";

const [, , step, file] = process.argv;
const chat = chatProtocol();
const protocol = {
  ...chat,
  name: "guess",
  version: 1,
  termination: { word: "rain" },
  handleLlmSuccess: (context, reply, state) => {
    if (reply.toolCalls.length > 0) return chat.handleLlmSuccess(context, reply, state);
    const guess = reply.outputText;
    const message = replyMessage(reply, context.turnId + "/" + context.protocolIteration + "/guess");
    const kept = [
      { type: "append_events", messages: [message], events: [{ guess }] },
      { type: "end_step", ...replyStepEnd(reply) },
    ];
    const value = { guess, before: context.events().map(({ guess }) => guess) };
    return guess === context.termination.word
      ? [...kept, { type: "finish", ending: ending({ type: "final_value", value }) }]
      : [...kept, { type: "advance_protocol_iteration", free: false }, { type: "start_checkpoint", checkpoint: "after_work", onEmpty: { type: "prepare_iteration" } }];
  },
};
const projector = { name: "polite", version: 1, project: (context) => {
  const request = ChatContextProjector.project(context);
  return { ...request, messages: [...request.messages, user("Please.")] };
} };
const look = tool({ name: "look", description: "Looks.", schema: { type: "object" }, needsApproval: true, handler: () => "wet" });
const scripts = step === "1" ? [[{ type: "text", text: "snow" }], [{ type: "tool_call", name: "look" }]] : [[{ type: "text", text: "rain" }]];
const adapter = fake({ scripts });
const of = engine({ adapter, tools: [look], protocol, projector });
const stored = step === "1" ? null : orThrow(fromJson(readFileSync(file, "utf8"), { as: "session" }));
const done = stored === null
  ? await session.start(of, "Guess.")
  : await session.continue(of, await session.decide(of, stored, "call_0", { type: "approve" }));
if (adapter.calls.some(({ request }) => request.messages.at(-1).content !== "Please.")) throw new Error("the projector was not used");
writeFileSync(file, toJson("session", done.session));
`;

test("a session that waits for an answer is continued by another process", async () => {
  const [first, second] = await sessionsOf(program);
  expect(first?.status).toBe("awaiting_user");
  expect(second?.status).toBe("completed");
  expect(second?.thread.messages.map(messageText).slice(-3)).toEqual(["Which?", "Blue.", "Blue it is."]);
});

test("a session with a protocol of one's own that waits for an approval is continued by another process", async () => {
  const [first, second] = await sessionsOf(guessing);
  const recordOf = (guess: string) => ({ protocol: "guess", event: { guess } });
  expect(first?.status).toBe("awaiting_tools");
  expect(first?.protocolEvents).toEqual([recordOf("snow")]);
  expect(second?.lastRun?.outcome).toEqual({ type: "final_value", value: { guess: "rain", before: ["snow"] } });
  expect(second?.protocolEvents).toEqual([recordOf("snow"), recordOf("rain")]);
});

/** The session after each of two processes that run the program, one after the other. */
async function sessionsOf(source: string) {
  const folder = await mkdtemp(join(tmpdir(), "everturn-"));
  const name = join(root, "lib/.snippets", `process-${process.pid}.mjs`);
  const file = join(folder, "session.json");
  try {
    await mkdir(join(root, "lib/.snippets"), { recursive: true });
    await writeFile(name, source);
    const sessions = [];
    for (const step of ["1", "2"]) {
      await run(process.execPath, [name, step, file]);
      sessions.push(orThrow(fromJson(await readFile(file, "utf8"), { as: "session" })));
    }
    return sessions;
  } finally {
    await rm(name, { force: true });
    await rm(folder, { recursive: true, force: true });
  }
}
