// What a page shows of a turn live, and after it was loaded again: the same messages.

import type { UIMessage } from "ai";
import type { EngineFields, FakeScript, Tool, ToolContext } from "everturn";

import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { agentTool, askUser, engine, fail, fake, finish, halt, tool, askAndResume } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { says } from "../../../../test/runs.ts";
import { chatWith, loaded, serve, withoutWithdrawn } from "../../../../test/ui-client.ts";

type Chat = ReturnType<typeof chatWith>;
type Case = {
  readonly scripts: readonly FakeScript[];
  readonly tools?: readonly Tool[];
  readonly play?: (chat: Chat) => Promise<unknown>;
  readonly options?: EngineFields;
};

const schema = { type: "object" };
const calls = (...names: readonly string[]): FakeScript =>
  names.map((name, index) => ({ type: "tool_call", id: `c${index}`, name, arguments: { at: index } }));
const returning = (name: string, handler: (input: unknown, run: ToolContext) => unknown, rest: object = {}): Tool =>
  tool({ name, description: "Returns.", schema, handler, ...rest });
/** A tool that asks its questions one after the other, and returns all answers. */
const asking = (name: string, ...questions: readonly string[]): Tool =>
  returning(name, (_, { answer }) => {
    const before = Array.isArray(answer?.state) ? answer.state : [];
    const answers = answer === null ? [] : [...before, answer.text];
    const question = questions[answers.length];
    return question === undefined ? { answers } : askAndResume(question, { state: answers });
  });
const approvalOf = (chat: Chat): string => {
  const part = chat.messages.at(-1)?.parts.find((item) => "approval" in item && item.state === "approval-requested");
  return part !== undefined && "approval" in part ? (part.approval?.id ?? "") : "";
};
const decided = async (chat: Chat, approved: boolean): Promise<void> => {
  await chat.addToolApprovalResponse({ id: approvalOf(chat), approved, reason: "not today" });
  await expect.poll(() => [chat.status, chat.messages.at(-1)?.parts.at(-1)?.type]).toEqual(["ready", "text"]);
};

const values = {
  text: "plain",
  looks: '{"like":"JSON"}',
  number: 3,
  no: false,
  nothing: null,
  list: [1, { a: 2 }],
  deep: { a: [null] },
};
const pay = returning("pay", () => ({ paid: true }), { needsApproval: true });

const cases: { readonly [name: string]: Case } = {
  "values of tools": {
    scripts: [calls(...Object.keys(values)), says("Done.")],
    tools: Object.entries(values).map(([name, value]) => returning(name, () => value)),
  },
  "a value that is converted for the model": {
    scripts: [calls("report"), says("Done.")],
    tools: [returning("report", () => ({ rows: 1000 }), { toModel: () => "1000 rows" })],
  },
  "failures of tools": {
    scripts: [calls("failing", "throwing"), says("Done.")],
    tools: [
      returning("failing", () => fail("sold out")),
      returning("throwing", () => {
        throw new Error("secret");
      }),
    ],
  },
  "wrong arguments": {
    scripts: [calls("strict"), says("Done.")],
    tools: [
      tool({
        name: "strict",
        description: "Is strict.",
        schema: { type: "object", properties: { at: { type: "string" } } },
        handler: () => 1,
      }),
    ],
  },
  "a tool that ends the turn": { scripts: [calls("end")], tools: [returning("end", () => finish({ done: 1 }))] },
  "a tool that halts the turn": {
    scripts: [calls("stop")],
    tools: [returning("stop", () => halt("enough", { at: 1 }))],
  },
  "reasoning and texts of several steps": {
    scripts: [[{ type: "reasoning", text: "Hm." }, { type: "text", text: "I look." }, ...calls("text")], says("Done.")],
    tools: [returning("text", () => "seen")],
  },
  "a question that the next message answers": {
    scripts: [calls("ask"), says("So be it."), says("Fine.")],
    tools: [returning("ask", () => askUser("Really?", { choices: ["yes", "no"] }))],
    play: async (chat) => {
      await chat.sendMessage({ text: "Yes" });
      await chat.sendMessage({ text: "Thanks" });
    },
  },
  "an open question": {
    scripts: [calls("ask")],
    tools: [returning("ask", () => askUser("Really?", { choices: ["yes", "no"] }))],
  },
  "a question whose answer is the result": {
    scripts: [calls("ask"), says("So be it.")],
    tools: [returning("ask", () => askUser("Really?", { answerAs: "tool_result", choices: ["yes", "no"] }))],
    play: (chat) => chat.sendMessage({ text: "Yes" }),
  },
  "an open question that resumes the tool": {
    scripts: [calls("ask")],
    tools: [returning("ask", () => askAndResume("Which one?", { opts: { choices: ["a", "b"] } }))],
  },
  "an answered question that resumes the tool": {
    scripts: [calls("ask"), says("So be it."), says("Fine.")],
    tools: [asking("ask", "Which one?")],
    play: async (chat) => {
      await chat.sendMessage({ text: "This one" });
      await chat.sendMessage({ text: "Thanks" });
    },
  },
  "a tool that asks twice": {
    scripts: [calls("ask"), says("So be it.")],
    tools: [asking("ask", "Which city?", "Which day?")],
    play: async (chat) => {
      await chat.sendMessage({ text: "Rome" });
      await chat.sendMessage({ text: "Monday" });
    },
  },
  "a question of an agent inside a tool": {
    scripts: [[{ type: "tool_call", id: "c1", name: "helper", arguments: { task: "Look." } }], says("So be it.")],
    tools: [
      agentTool({
        name: "helper",
        description: "Helps.",
        engine: engine({
          adapter: fake({ scripts: [calls("ask"), says("It is Rome.")] }),
          model: "fake:m",
          tools: [asking("ask", "Which city?")],
        }),
      }),
    ],
    play: (chat) => chat.sendMessage({ text: "Rome" }),
  },
  "a tool that asks and whose value is converted for the model": {
    scripts: [calls("ask"), says("So be it.")],
    tools: [
      returning("ask", (_, { answer }) => (answer === null ? askAndResume("Which city?") : { rows: 1000 }), {
        toModel: () => "1000 rows",
      }),
    ],
    play: (chat) => chat.sendMessage({ text: "Rome" }),
  },
  "a call that was approved after a question was answered": {
    scripts: [calls("ask"), calls("pay"), says("Done.")],
    tools: [asking("ask", "Which city?"), pay],
    play: async (chat) => {
      await chat.sendMessage({ text: "Rome" });
      await decided(chat, true);
    },
  },
  "an answered question of a tool that asks again": {
    scripts: [calls("ask")],
    tools: [asking("ask", "Which city?", "Which day?")],
    play: (chat) => chat.sendMessage({ text: "Rome" }),
  },
  "two tools that ask": {
    scripts: [calls("ask", "choose"), says("So be it.")],
    tools: [asking("ask", "Which city?"), asking("choose", "Which day?")],
    play: async (chat) => {
      await chat.sendMessage({ text: "Rome" });
      await chat.sendMessage({ text: "Monday" });
    },
  },
  "a tool that reports progress": {
    scripts: [calls("look"), says("Seen.")],
    tools: [
      returning("look", (_, { progress }) => {
        progress({ percent: 50 });
        return "seen";
      }),
    ],
  },
  "a tool that does not exist": { scripts: [calls("missing"), says("Sorry.")] },
  "a call that waits for an approval": { scripts: [calls("pay")], tools: [pay] },
  "a call that was approved": {
    scripts: [calls("pay"), says("Done.")],
    tools: [pay],
    play: (chat) => decided(chat, true),
  },
  "a call that was denied": {
    scripts: [calls("pay"), says("Done.")],
    tools: [pay],
    play: (chat) => decided(chat, false),
  },
  "a call that a hook denied": {
    scripts: [calls("pay"), says("Done.")],
    tools: [pay],
    options: { options: { hooks: { beforeTool: () => ({ type: "deny", reason: "not allowed" }) } } },
  },
  "a failed turn": {
    scripts: [
      [
        { type: "text", text: "Half" },
        { type: "error", reason: "invalid_request", message: "no", retryable: false },
      ],
    ],
  },
};

/**
 * What a person sees. Left out: ids of answers to questions, the response to an approval whose call has a result, hints
 * of questions that were answered, and the empty step that follows calls at the end of a turn.
 */
function seen(messages: readonly UIMessage[]): unknown {
  return messages.map((message, index) => {
    const { id, role, parts } = withoutWithdrawn(message);
    const shown = parts.flatMap((part, at): readonly unknown[] => {
      if (part.type === "step-start" && at === parts.length - 1) return [];
      if ("approval" in part && part.state !== "approval-requested") return [{ ...part, approval: undefined }];
      if (part.type !== "data-question" || index === messages.length - 1) return [part];
      return [{ ...part, data: { ...Object(part.data), opts: {} } }];
    });
    return { id: role === "user" ? "" : id, role, parts: JSON.parse(JSON.stringify(shown)) };
  });
}

test.each(Object.entries(cases))("%s", async (_, { scripts, tools = [], play, options = {} }) => {
  const adapter = fake({ scripts });
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ ...options, adapter, model: "fake:m", tools }) },
  });
  const chat = chatWith(serve(sessions, { by: "ada" }), {
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await chat.sendMessage({ text: "Go" });
  await play?.(chat);
  expect(seen(await loaded(sessions))).toEqual(seen(chat.messages));
});

test("a page that is opened while the tool reads the answer shows what the other page shows", async () => {
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  const ask = returning("ask", async (_, { answer }) => {
    if (answer === null) return askAndResume("Which city?");
    await released;
    return { city: answer.text };
  });
  const adapter = fake({ scripts: [calls("ask"), calls("pay"), says("Done.")] });
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter, model: "fake:m", tools: [ask, pay] }) },
  });
  const server = serve(sessions, { by: "ada" });
  const chat = chatWith(server);
  await chat.sendMessage({ text: "Go" });
  const answered = chat.sendMessage({ text: "Rome" });
  await expect.poll(() => chat.messages.at(-1)?.parts.at(-1)?.type).toBe("tool-ask");
  const other = chatWith(server, { messages: await loaded(sessions) });
  const resumed = other.resumeStream();
  await expect.poll(() => other.messages.at(-1)?.parts.at(-1)?.type).toBe("tool-ask");
  expect(seen(other.messages)).toEqual(seen(chat.messages));
  release();
  await Promise.all([answered, resumed]);
  expect(seen(other.messages)).toEqual(seen(chat.messages));
  // The next turn extends the message: a page that reads it gets the message from its start.
  const [call] = (await sessions.get("chat"))?.session.pendingToolCalls ?? [];
  const third = chatWith(server, { messages: await loaded(sessions) });
  await sessions.decide("chat", call?.id ?? "", { type: "approve" });
  await Promise.all([third.resumeStream(), other.resumeStream()]);
  expect(third.messages.at(-1)?.parts.map(({ type }) => type)).toEqual([
    "tool-ask",
    "step-start",
    "tool-pay",
    "step-start",
    "text",
  ]);
  expect(seen(third.messages)).toEqual(seen(await loaded(sessions)));
});
