// The AI SDK's chat over the HTTP handler: routes, authentication and frames.

import type { Runtime } from "everturn/runtime";

import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  validateUIMessages,
  type ChatTransport,
  type UIMessage,
} from "ai";
import { engine, fake, tool } from "everturn";
import { chatTransport } from "everturn/client";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { chatDialects } from "../../../../test/dialects.ts";
import { handModel } from "../../../../test/hand-model.ts";
import { says } from "../../../../test/runs.ts";
import { sharedSessions } from "../../../../test/shared-sessions.ts";
import { sdk, TestChat } from "../../../../test/ui-client.ts";

const token = "a-secret-bearer-token";
const base = "http://localhost";

function clientOf(
  handler: (request: Request) => Promise<Response>,
  { authorization = `Bearer ${token}`, stops = false } = {},
) {
  const answers: Response[] = [];
  const ask: typeof fetch = async (input, init) => {
    const answer = await handler(new Request(String(input), init));
    answers.push(answer);
    return answer;
  };
  const headers = { authorization, "ai-sdk-version": String(sdk) };
  const chat = (messages: UIMessage[] = []) => {
    const transport: ChatTransport<UIMessage> = stops
      ? chatTransport({ url: base, token, fetch: ask, sdk })
      : new DefaultChatTransport<UIMessage>({ api: `${base}/ui/chat`, fetch: ask, headers });
    const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithApprovalResponses;
    return new TestChat({ id: "chat one", messages, transport, sendAutomaticallyWhen });
  };
  const load = async () => {
    const answer = await handler(new Request(`${base}/ui/chat/chat%20one`, { headers }));
    return JSON.parse(await answer.text());
  };
  return { chat, load, answers };
}

const uiMessageText = (message: UIMessage | undefined) =>
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
    const watched = (made: Runtime): Runtime => ({
      ...made,
      actedBy: (actor) => watched(made.actedBy(actor)),
      decide: (id, call, decision, options) => {
        deciders.push(decision.by);
        return made.decide(id, call, decision, options);
      },
    });
    const auth = [{ token, name: "ada", operator: true }];
    const { chat, load, answers } = clientOf(
      createHandler({ dialects: chatDialects, sessions: watched(sessions), auth }),
    );
    // A page of a new chat loads it: the console of the browser shows no failed request.
    expect(await load()).toEqual({
      id: "chat one",
      sessionId: "chat one",
      messages: [],
      previous: null,
      status: "idle",
      version: 0,
      turnId: null,
      error: null,
    });
    const first = chat();
    await first.resumeStream();
    await first.sendMessage({ text: "Pay the bill." });
    expect([first.status, uiMessageText(first.messages[1])]).toEqual(["ready", "May I? "]);
    const loaded = await load();
    await expect(validateUIMessages({ messages: loaded.messages })).resolves.toHaveLength(2);
    const second = chat(loaded.messages);
    const asked = second.messages[1]?.parts.find((part) => "approval" in part);
    const id = asked !== undefined && "approval" in asked ? (asked.approval?.id ?? "") : "";
    await second.addToolApprovalResponse({ id, approved: true });
    await until(() => second.status === "ready" && uiMessageText(second.messages[1]) === "May I? Paid.");
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
    const { chat, load, answers } = clientOf(
      createHandler({ sessions, dialects: chatDialects, ...sharedSessions, auth: [{ token }] }),
    );
    const left = chat();
    const sent = left.sendMessage({ text: "Go" });
    const call = await model.call(1);
    await call.say("One ");
    await until(() => uiMessageText(left.messages[1]) === "One ");
    await left.stop();
    await sent;
    const page = chat((await load()).messages);
    const resumed = page.resumeStream();
    await until(() => uiMessageText(page.messages[1]) === "One ");
    await call.say("two.");
    call.finish();
    await resumed;
    expect([page.status, page.messages.length, uiMessageText(page.messages[1])]).toEqual(["ready", 2, "One two."]);
    expect(answers.map(({ headers }) => headers.get("x-vercel-ai-ui-message-stream"))).toEqual(["v1", "v1"]);
  });

  test("cancels the turn when it is stopped, and accepts the next message", async () => {
    const model = handModel();
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: model, model: "hand:m" }) },
    });
    const {
      chat: newChat,
      load,
      answers,
    } = clientOf(createHandler({ sessions, dialects: chatDialects, ...sharedSessions, auth: [{ token }] }), {
      stops: true,
    });
    const chat = newChat();
    const sent = chat.sendMessage({ text: "Go" });
    await (await model.call(1)).say("One ");
    await until(() => uiMessageText(chat.messages[1]) === "One ");
    await chat.stop();
    await sent;
    expect([chat.status, uiMessageText(chat.messages[1])]).toEqual(["ready", "One "]);
    const next = chat.sendMessage({ text: "Again" });
    const second = await model.call(2);
    await second.say("Two.");
    second.finish();
    await next;
    expect([chat.error, chat.messages.map(uiMessageText)]).toEqual([undefined, ["Go", "One ", "Again", "Two."]]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await load()).turnId).toBeNull();
    // A page that resumed the turn can stop it, too.
    const third = chat.sendMessage({ text: "More" });
    await (await model.call(3)).say("Three ");
    const page = newChat((await load()).messages);
    const resumed = page.resumeStream();
    await until(() => uiMessageText(page.messages.at(-1)) === "Three ");
    await page.stop();
    await Promise.all([resumed, third]);
    await until(() => answers.length === 6);
    expect(await load()).toMatchObject({ status: "idle", turnId: null });
  });

  test("cancels a turn that is stopped before the server has responded", async () => {
    const model = handModel();
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: model, model: "hand:m" }) },
    });
    const handler = createHandler({ sessions, dialects: chatDialects, ...sharedSessions, auth: [{ token }] });
    const stopped = new AbortController();
    // The response to the message is on its way until the client has stopped.
    const slowHandler = async (request: Request) => {
      const response = await handler(request);
      await until(() => stopped.signal.aborted);
      return response;
    };
    const { chat: newChat, load, answers } = clientOf(slowHandler, { stops: true });
    const chat = newChat();
    const sent = chat.sendMessage({ text: "Go" });
    await model.call(1);
    await chat.stop();
    await sent;
    expect([chat.status, answers]).toEqual(["ready", []]);
    stopped.abort();
    await until(() => answers.length === 2);
    expect((await sessions.get("chat one"))?.session.lastRun?.outcome.type).toBe("cancelled");
    expect(await load()).toMatchObject({ status: "idle", turnId: null });
  });

  test("shows the reason of a rejected post, which starts nothing", async () => {
    const adapter = fake({ scripts: [says("One.")] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter, model: "fake:m" }) } });
    const handler = createHandler({ sessions, dialects: chatDialects, ...sharedSessions, auth: [{ token }] });
    const stranger = clientOf(handler, { authorization: "Bearer token-of-another-tenant-123" });
    const refused = stranger.chat();
    await refused.sendMessage({ text: "Hi" });
    expect([refused.status, stranger.answers[0]?.status]).toEqual(["error", 401]);
    expect(await sessions.get("chat one")).toBeNull();
    const known = clientOf(handler);
    const chat = known.chat();
    await chat.sendMessage({ text: "Hi" });
    chat.messages = chat.messages.map((message) => ({ ...message, parts: [] }));
    await chat.regenerate();
    expect(chat.error?.message).toContain("must contain text or a file");
    expect(known.answers.map(({ status }) => status)).toEqual([200, 400]);
    expect(adapter.calls).toHaveLength(1);
  });
});
