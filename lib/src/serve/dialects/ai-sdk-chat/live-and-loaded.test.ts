// What a page shows of a turn live, and after it was loaded again: the same messages.

import type { UIMessage } from "ai";
import type { EngineFields, FakeScript, Tool, ToolContext } from "everturn";

import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { askUser, engine, fail, fake, finish, halt, tool, askAndResume } from "everturn";
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
