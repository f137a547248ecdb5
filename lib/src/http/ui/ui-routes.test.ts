// The AI SDK's chat over the HTTP handler: routes, authentication and frames.

import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  validateUIMessages,
  type UIMessage,
} from "ai";
import { engine, fake, tool } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { handModel } from "../../../test/hand-model.ts";
import { says } from "../../../test/runs.ts";
import { TestChat } from "../../../test/ui-client.ts";

const token = "a-secret-bearer-token";
const base = "http://localhost";

function clientOf(handler: (request: Request) => Promise<Response>, authorization = `Bearer ${token}`) {
  const answers: Response[] = [];
  const ask: typeof fetch = async (input, init) => {
    const answer = await handler(new Request(String(input), init));
    answers.push(answer);
    return answer;
  };
  const headers = { authorization };
  const chat = (messages: UIMessage[] = []) => {
    const transport = new DefaultChatTransport<UIMessage>({ api: `${base}/ui/chat`, fetch: ask, headers });
    const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithApprovalResponses;
    return new TestChat({ id: "chat one", messages, transport, sendAutomaticallyWhen });
  };
  const load = async () => {
    const answer = await handler(new Request(`${base}/ui/chat/chat%20one`, { headers }));
    return JSON.parse(await answer.text());
  };
  return { chat, load, answers };
}

const textOf = (message: UIMessage | undefined) =>
  message?.parts.reduce((all, part) => (part.type === "text" ? all + part.text : all), "") ?? "";

async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
}

describe("the AI SDK's chat over the HTTP handler", () => {
  test("is started, reloaded, approved and continued", async () => {
    let paid = 0;
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      needsApproval: true,
      handler: () => {
        paid += 1;
        return { paid };
      },
    });
    const scripts = [
      [{ type: "text", text: "May I? " } as const, { type: "tool_call", name: "pay" } as const],
      says("Paid."),
    ];
    const engines = { default: engine({ adapter: fake({ scripts }), model: "fake:m", tools: [pay] }) };
    const sessions = runtime({ host: memoryStorage(), engines });
    const deciders: unknown[] = [];
    const decide: typeof sessions.decide = (id, call, decision, options) => {
      deciders.push(decision.by);
      return sessions.decide(id, call, decision, options);
    };
    const auth = [{ token, name: "ada" }];
    const { chat, load, answers } = clientOf(createHandler({ sessions: { ...sessions, decide }, auth }));
    expect((await load()).error).toMatchObject({ reason: "not_found" });
    const first = chat();
    await first.resumeStream();
    await first.sendMessage({ text: "Pay the bill." });
    expect([first.status, textOf(first.messages[1])]).toEqual(["ready", "May I? "]);
    const loaded = await load();
    await expect(validateUIMessages({ messages: loaded.messages })).resolves.toHaveLength(2);
    const second = chat(loaded.messages);
    const asked = second.messages[1]?.parts.find((part) => "approval" in part);
    const id = asked !== undefined && "approval" in asked ? (asked.approval?.id ?? "") : "";
    await second.addToolApprovalResponse({ id, approved: true });
    await until(() => second.status === "ready" && textOf(second.messages[1]) === "May I? Paid.");
    expect([second.messages.length, paid, deciders]).toEqual([2, 1, ["ada"]]);
    await second.resumeStream();
    expect(answers.map(({ status }) => status)).toEqual([204, 200, 200, 204]);
    expect(answers[1]?.headers.get("x-vercel-ai-ui-message-stream")).toBe("v1");
    expect(await load()).toMatchObject({ status: "completed", turnId: null, error: null });
  });

  test("is resumed by a reloaded page during a turn", async () => {
    const model = handModel();
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: model, model: "hand:m" }) },
    });
    const { chat, load, answers } = clientOf(createHandler({ sessions, auth: [{ token }] }));
    const left = chat();
    const sent = left.sendMessage({ text: "Go" });
    const call = await model.call(1);
    await call.say("One ");
    await until(() => textOf(left.messages[1]) === "One ");
    await left.stop();
    await sent;
    const page = chat((await load()).messages);
    const resumed = page.resumeStream();
    await until(() => textOf(page.messages[1]) === "One ");
    await call.say("two.");
    call.finish();
    await resumed;
    expect([page.status, page.messages.length, textOf(page.messages[1])]).toEqual(["ready", 2, "One two."]);
    expect(answers.map(({ headers }) => headers.get("x-vercel-ai-ui-message-stream"))).toEqual(["v1", "v1"]);
  });

  test("shows the reason of a rejected post, which starts nothing", async () => {
    const adapter = fake({ scripts: [says("One.")] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter, model: "fake:m" }) } });
    const handler = createHandler({ sessions, auth: [{ token }] });
    const stranger = clientOf(handler, "Bearer somebody-elses-token-123");
    const refused = stranger.chat();
    await refused.sendMessage({ text: "Hi" });
    expect([refused.status, stranger.answers[0]?.status]).toEqual(["error", 401]);
    expect(await sessions.get("chat one")).toBeNull();
    const known = clientOf(handler);
    const chat = known.chat();
    await chat.sendMessage({ text: "Hi" });
    await chat.regenerate();
    expect(chat.error?.message).toContain("history is append-only");
    expect(known.answers.map(({ status }) => status)).toEqual([200, 400]);
    expect(adapter.calls).toHaveLength(1);
  });
});
