// The transport with the chat of the AI SDK, versions 6 and 7, against a handler whose connections are cut.

import type { Runtime } from "../../durable/internal.ts";
import type { UIMessage } from "ai";
import type { Clock, FakeScript, JsonObject } from "everturn";

import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { engine, fake, tool } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { afterEach, describe, expect, test } from "vitest";

import { chatDialects } from "../../../test/dialects.ts";
import { handModel } from "../../../test/hand-model.ts";
import { says } from "../../../test/runs.ts";
import { loaded, sdk, TestChat } from "../../../test/ui-client.ts";
import { chatTransport } from "./chat-transport.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const pay = tool({
  name: "pay",
  description: "Pays.",
  schema: { type: "object" },
  needsApproval: true,
  handler: () => "paid",
});
const look = tool({
  name: "look",
  description: "Looks.",
  schema: { type: "object" },
  handler: (input, { progress }) => {
    progress({ percent: 50 });
    return { seen: input };
  },
});

function sessionsOf(agent: ReturnType<typeof engine>): Runtime {
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  closing.push(() => sessions.close());
  return sessions;
}

type Sent = { readonly url: string; readonly method: string; readonly length: number; status: number };

/** A server whose connections can be cut. `cutAfter`: bytes after which the next response is cut. */
function serverOf(sessions: Runtime) {
  const open = new Set<AbortController>();
  const sent: Sent[] = [];
  const streaming = new Set<AbortController>();
  let handler: ReturnType<typeof handlerOf> | null = handlerOf(sessions);
  const server = {
    sent,
    cutAfter: null as number | null,
    /** Holds what follows the first frame with this text of the next response, until `release` is called. */
    holdAfter: null as string | null,
    /** Whether the rest of a response is held. */
    isHolding: false,
    release: (): void => undefined,
    /** The number of connections whose response is not complete. */
    open: () => streaming.size,
    /** Ends all connections. */
    cut: () => {
      for (const connection of open) connection.abort(new Error("cut"));
      open.clear();
    },
    /** Serves other sessions, or none (`null`): the server is down. */
    serve: (next: Runtime | null, shutdown?: AbortSignal) => {
      handler = next === null ? null : handlerOf(next, shutdown);
    },
    fetch: async (url: string, init: RequestInit): Promise<Response> => {
      const entry = { url, method: init.method ?? "GET", length: String(init.body ?? "").length, status: 0 };
      sent.push(entry);
      if (handler === null) throw new TypeError("fetch failed");
      const connection = new AbortController();
      open.add(connection);
      const response = await handler(new Request(url, init));
      entry.status = response.status;
      if (response.body === null) return response;
      const { cutAfter, holdAfter } = server;
      server.cutAfter = server.holdAfter = null;
      let bytes = 0;
      let held = holdAfter;
      streaming.add(connection);
      const holding = new TransformStream<Uint8Array, Uint8Array>({
        transform: async (chunk, controller) => {
          const text = new TextDecoder().decode(chunk);
          const found = held === null ? -1 : text.indexOf(held);
          if (found < 0) return controller.enqueue(chunk);
          held = null;
          const end = text.indexOf("\n\n", found) + 2;
          controller.enqueue(new TextEncoder().encode(text.slice(0, end)));
          const released = new Promise<void>((resolve) => (server.release = resolve));
          server.isHolding = true;
          await released;
          server.isHolding = false;
          controller.enqueue(new TextEncoder().encode(text.slice(end)));
        },
      });
      const cutting = new TransformStream<Uint8Array, Uint8Array>({
        transform: (chunk, controller) => {
          const rest = cutAfter === null ? chunk.length : cutAfter - bytes;
          bytes += chunk.length;
          controller.enqueue(chunk.subarray(0, rest));
          if (rest < chunk.length) controller.error(new Error("cut"));
        },
      });
      const body = response.body.pipeThrough(holding);
      const piped = body.pipeTo(cutting.writable, { signal: connection.signal });
      piped.catch(() => undefined).finally(() => streaming.delete(connection));
      return new Response(cutting.readable, response);
    },
  };
  return server;
}

function handlerOf(sessions: Runtime, shutdown?: AbortSignal) {
  return createHandler({
    sessions,
    dialects: chatDialects,
    auth: "none",
    ...(shutdown === undefined ? {} : { shutdown }),
  });
}

function chatOn({ fetch }: ReturnType<typeof serverOf>, messages: UIMessage[] = []): TestChat {
  return new TestChat({
    id: "chat",
    messages,
    transport: chatTransport({ url: "http://localhost", sdk, fetch, retry: { baseMs: 1, maxMs: 5 } }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
}

/** A chat of a page with `resume: true` and `onFinish: () => void resumeStream()`, as the guide shows it. */
function followingChat(server: ReturnType<typeof serverOf>, messages: UIMessage[] = [], clock?: Clock): TestChat {
  const { fetch } = server;
  const options = { url: "http://localhost", sdk, fetch, retry: { baseMs: 1, maxMs: 5 } };
  const chat = new TestChat({
    id: "chat",
    messages,
    transport: chatTransport({ ...options, ...(clock === undefined ? {} : { clock }) }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onFinish: () => void chat.resumeStream(),
  });
  void chat.resumeStream();
  closing.push(() => chat.stop());
  return chat;
}

async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
}

const textOf = (message: UIMessage | undefined) =>
  message?.parts.reduce((all, part) => (part.type === "text" ? all + part.text : all), "") ?? "";

/** The state of each call of a message, in order. */
const callStates = (message: UIMessage | undefined) =>
  message?.parts.flatMap((part) => ("toolCallId" in part ? [part.state] : []));

/** The parts of a message without ids and digests, which differ from session to session. */
function shown(message: UIMessage | undefined): unknown {
  return JSON.parse(
    JSON.stringify(message?.parts ?? [])
      .replaceAll(/turn-[0-9a-f]+/g, "turn")
      .replaceAll(/[0-9a-f]{84}/g, "digest"),
  );
}

describe("a connection that is cut", () => {
  test("goes on after the last word, in the same message", async () => {
    const model = handModel();
    const server = serverOf(sessionsOf(engine({ adapter: model, model: "hand:m" })));
    const chat = chatOn(server);
    const sent = chat.sendMessage({ text: "Hi" });
    const call = await model.call(1);
    await call.think("Hm. ");
    for (const word of ["One ", "two ", "three ", "four "]) {
      await call.say(word);
      await until(() => textOf(chat.messages[1]).endsWith(word));
      server.cut();
    }
    await call.say("five.");
    call.finish();
    await sent;
    expect([chat.status, chat.error]).toEqual(["ready", undefined]);
    expect(chat.messages).toHaveLength(2);
    expect(chat.messages[1]?.parts).toMatchObject([
      { type: "step-start" },
      { type: "reasoning", text: "Hm. ", state: "done" },
      { type: "text", text: "One two three four five.", state: "done" },
    ]);
    // The reconnections continue after a cursor: no response repeats the message.
    expect(server.sent.slice(1).every(({ url }) => url.includes("/ui/chat/chat/stream?turn="))).toBe(true);
  });

  test("shows the same message wherever it is cut", async () => {
    const scripts = [
      [
        { type: "reasoning", text: "I look." },
        { type: "text", text: "Look" },
        { type: "text", text: "ing." },
        { type: "tool_call", id: "a", name: "look", arguments: { at: 1 } },
        { type: "tool_call", id: "b", name: "pay", arguments: { euros: 5 } },
      ],
      [
        { type: "text", text: "Seen" },
        { type: "text", text: " and paid." },
      ],
    ] as const;
    const play = async (cuts: readonly (number | null)[]) => {
      const adapter = fake({ scripts });
      const server = serverOf(sessionsOf(engine({ adapter, model: "fake:m", tools: [look, pay] })));
      const chat = chatOn(server);
      server.cutAfter = cuts[0] ?? null;
      await chat.sendMessage({ text: "Hi" });
      const waiting = chat.messages[1]?.parts.find((part) => "approval" in part);
      const id = waiting !== undefined && "approval" in waiting ? (waiting.approval?.id ?? "") : "";
      server.cutAfter = cuts[1] ?? null;
      await chat.addToolApprovalResponse({ id, approved: true });
      await until(() => ["ready", "error"].includes(chat.status) && textOf(chat.messages[1]).endsWith("paid."));
      return { message: chat.messages[1], chat, adapter, server };
    };
    const whole = await play([]);
    expect(textOf(whole.message)).toBe("Looking.Seen and paid.");
    for (const cut of [0, 40, 400, 700, 900, 1200, 1500, 1800, 2100, 2500, 3000, 4000]) {
      for (const cuts of [
        [cut, null],
        [null, cut],
      ]) {
        const { message, chat, adapter } = await play(cuts);
        expect([cuts, chat.messages.length, adapter.calls.length]).toEqual([cuts, 2, 2]);
        expect(shown(message)).toEqual(shown(whole.message));
      }
    }
  });

  test("goes on when the process stops and the next one has started", async () => {
    const host = memoryStorage();
    const model = handModel();
    const engines = { default: engine({ adapter: model, model: "hand:m" }) };
    const first = runtime({ host, engines });
    const server = serverOf(first);
    const shutdown = new AbortController();
    server.serve(first, shutdown.signal);
    const chat = chatOn(server);
    const sent = chat.sendMessage({ text: "Hi" });
    await (await model.call(1)).say("One ");
    await until(() => textOf(chat.messages[1]) === "One ");
    shutdown.abort();
    await first.close({ graceMs: 0 });
    server.serve(null);
    const second = runtime({ host, engines });
    closing.push(() => second.close());
    server.serve(second);
    await second.recover();
    const call = await model.call(2);
    await call.say("One two.");
    call.finish();
    await sent;
    const [step, ...parts] = chat.messages[1]?.parts.filter(({ type }) => sdk === 7 || type !== "step-start") ?? [];
    expect([chat.status, chat.messages.length, step !== undefined]).toEqual(["ready", 2, true]);
    expect(parts.filter(({ type }) => type === "text").at(-1)).toMatchObject({ text: "One two." });
    if (sdk === 7) expect(textOf(chat.messages[1])).toBe("One two.");
  });
});

test("posts the newest message only", async () => {
  const scripts = Array.from({ length: 3 }, () => says("x".repeat(400_000)));
  const server = serverOf(sessionsOf(engine({ adapter: fake({ scripts }), model: "fake:m" })));
  const chat = chatOn(server);
  for (let index = 0; index < 3; index += 1) await chat.sendMessage({ text: "More" });
  expect([chat.status, chat.messages.length]).toEqual(["ready", 6]);
  expect(server.sent.every(({ length }) => length < 500)).toBe(true);
});

test("stops the turn, and accepts the next message", async () => {
  const model = handModel();
  const sessions = sessionsOf(engine({ adapter: model, model: "hand:m" }));
  const chat = chatOn(serverOf(sessions));
  const sent = chat.sendMessage({ text: "Go" });
  await (await model.call(1)).say("One ");
  await until(() => textOf(chat.messages[1]) === "One ");
  await chat.stop();
  await sent;
  const next = chat.sendMessage({ text: "Again" });
  const call = await model.call(2);
  await call.say("Two.");
  call.finish();
  await next;
  expect([chat.error, chat.messages.map(textOf)]).toEqual([undefined, ["Go", "One ", "Again", "Two."]]);
});

test("a page that was loaded during a turn reads it, also over a cut connection, and a second mount does not stop it", async () => {
  const model = handModel();
  const sessions = sessionsOf(engine({ adapter: model, model: "hand:m" }));
  const server = serverOf(sessions);
  const left = chatOn(server);
  void left.sendMessage({ text: "Go" });
  const call = await model.call(1);
  await call.say("One ");
  const page = chatOn(server, [
    { id: left.messages[0]?.id ?? "", role: "user", parts: [{ type: "text", text: "Go" }] },
  ]);
  const aborted = page.resumeStream();
  void page.stop();
  const resumed = page.resumeStream();
  await aborted;
  await until(() => textOf(page.messages[1]) === "One ");
  server.cut();
  await call.say("two.");
  call.finish();
  await resumed;
  expect([page.status, page.messages.length, textOf(page.messages[1])]).toEqual(["ready", 2, "One two."]);
  await until(() => left.status === "ready");
  expect(textOf(left.messages[1])).toBe("One two.");
});

describe("arguments that are edited while the reply is still received", () => {
  const transports = {
    "the transport of this library": chatOn,
    "the transport of the SDK": ({ fetch }: ReturnType<typeof serverOf>) =>
      new TestChat({
        id: "chat",
        transport: new DefaultChatTransport({
          api: "http://localhost/ui/chat",
          fetch: async (url, init) => fetch(String(url), init ?? {}),
        }),
        sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      }),
  };
  const requestsOf = (chat: TestChat): readonly string[] =>
    chat.messages.at(-1)?.parts.flatMap((part) => {
      const isAsked = "approval" in part && part.state === "approval-requested";
      return isAsked && part.approval !== undefined ? [part.approval.id] : [];
    }) ?? [];

  /** A session whose tool records what it runs with. */
  function paying(...calls: readonly JsonObject[]) {
    const ran: JsonObject[] = [];
    const handler = (input: JsonObject) => {
      ran.push(input);
      return "paid";
    };
    const script = calls.map(
      (args, index) => ({ type: "tool_call", id: `c${index}`, name: "pay", arguments: args }) as const,
    );
    const adapter = fake({ scripts: [script, says("Paid.")] });
    const tools = [
      tool({ name: "pay", description: "Pays.", schema: { type: "object" }, needsApproval: true, handler }),
    ];
    return { ran, server: serverOf(sessionsOf(engine({ adapter, model: "fake:m", tools }))) };
  }

  /** What a page does when a person has edited the arguments of a call and approves it. */
  async function approveEdited(chat: TestChat, id: string, input: JsonObject): Promise<void> {
    chat.messages = chat.messages.map((message) => ({
      ...message,
      parts: message.parts.map((part) =>
        "approval" in part && part.state === "approval-requested" && part.approval.id === id
          ? { ...part, input }
          : part,
      ),
    }));
    await chat.addToolApprovalResponse({ id, approved: true });
  }

  test.each(Object.entries(transports))("are those that run, with %s", async (_, open) => {
    const { ran, server } = paying({ euros: 500 });
    const chat = open(server);
    server.holdAfter = '"tool-approval-request"';
    const sent = chat.sendMessage({ text: "Pay" });
    await until(() => requestsOf(chat).length === 1);
    // This library's transport shows requests together with the end of the reply.
    expect(chat.status).toBe(open === chatOn ? "ready" : "streaming");
    await approveEdited(chat, requestsOf(chat)[0] ?? "", { euros: 5 });
    server.release();
    await sent;
    await until(() => chat.status !== "streaming" && textOf(chat.messages.at(-1)) === "Paid.");
    expect([chat.error, ran]).toEqual([undefined, [{ euros: 5 }]]);
  });

  test("of several calls can be edited when all of them are shown", async () => {
    const { ran, server } = paying({ euros: 500 }, { euros: 600 });
    const chat = chatOn(server);
    server.holdAfter = '"tool-approval-request"';
    const counts = new Set<number>();
    const sent = chat.sendMessage({ text: "Pay" });
    // The first request has arrived, and the second one has not.
    await until(() => {
      counts.add(requestsOf(chat).length);
      return server.isHolding;
    });
    server.release();
    await until(() => {
      counts.add(requestsOf(chat).length);
      return requestsOf(chat).length === 2;
    });
    expect([...counts]).toEqual([0, 2]);
    for (const id of requestsOf(chat)) await approveEdited(chat, id, { euros: 5 });
    await sent;
    await until(() => chat.status !== "streaming" && textOf(chat.messages.at(-1)) === "Paid.");
    expect([chat.error, ran]).toEqual([undefined, [{ euros: 5 }, { euros: 5 }]]);
  });
});

test("reports a failed turn, and the next message goes on", async () => {
  const scripts = [
    [{ type: "error", reason: "invalid_request", message: "no", retryable: false }],
    [{ type: "text", text: "Here." }],
  ] as const;
  const chat = chatOn(serverOf(sessionsOf(engine({ adapter: fake({ scripts }), model: "fake:m" }))));
  await chat.sendMessage({ text: "Hi" });
  expect([chat.status, chat.error?.message]).toEqual(["error", "invalid_request: no"]);
  await chat.sendMessage({ text: "Again" });
  expect([chat.status, textOf(chat.messages.at(-1))]).toEqual(["ready", "Here."]);
});

describe("a page follows what others do", () => {
  const asks = (text: string, id: string): FakeScript => [
    { type: "text", text },
    { type: "tool_call", id, name: "pay", arguments: { euros: 5 } },
  ];

  function paying(...scripts: readonly FakeScript[]) {
    const sessions = sessionsOf(engine({ adapter: fake({ scripts }), model: "fake:m", tools: [pay] }));
    return { sessions, server: serverOf(sessions) };
  }

  /** The requests that wait for a turn. */
  const waits = ({ sent }: ReturnType<typeof serverOf>) => sent.filter(({ url }) => url.includes("wait=true"));

  test("shows the reply after each approval of another person", async () => {
    const { sessions, server } = paying(asks("May I? ", "c1"), says("Paid. "), asks("And now? ", "c2"), says("Again."));
    const chat = followingChat(server);
    await chat.sendMessage({ text: "Pay" });
    expect([chat.status, callStates(chat.messages[1])]).toEqual(["ready", ["approval-requested"]]);
    await sessions.decide("chat", "c1", { type: "approve", by: "Bea" });
    await until(() => textOf(chat.messages[1]) === "May I? Paid. " && chat.status === "ready");
    await chat.sendMessage({ text: "Pay again" });
    await sessions.decide("chat", "c2", { type: "approve", by: "Bea", arguments: { euros: 1 } });
    await until(() => textOf(chat.messages[3]) === "And now? Again." && chat.status === "ready");
    expect([chat.error, chat.messages.map(callStates)]).toEqual([
      undefined,
      [[], ["output-available"], [], ["output-available"]],
    ]);
    // A loaded page shows the same.
    expect(chat.messages.slice(0, 4).map(shown)).toEqual((await loaded(sessions)).map(shown));
  });

  test("shows that another person has denied", async () => {
    const { sessions, server } = paying(asks("May I? ", "c1"), says("Not paid."));
    const chat = followingChat(server);
    await chat.sendMessage({ text: "Pay" });
    await sessions.decide("chat", "c1", { type: "deny", reason: "too much", by: "Bea" });
    await until(() => textOf(chat.messages[1]) === "May I? Not paid." && chat.status === "ready");
    expect(chat.messages[1]?.parts).toContainEqual(
      expect.objectContaining({ toolCallId: "c1", state: "output-error", errorText: "denied: too much" }),
    );
  });

  test("shows a turn that began and ended while the page had no connection", async () => {
    const { sessions, server } = paying(asks("May I? ", "c1"), says("Paid."));
    const chat = followingChat(server);
    await chat.sendMessage({ text: "Pay" });
    await until(() => waits(server).some(({ url, status }) => url.includes("session=chat") && status === 200));
    server.serve(null);
    server.cut();
    const { result } = await sessions.decide("chat", "c1", { type: "approve", by: "Bea" });
    await result;
    const refused = server.sent.length;
    await until(() => server.sent.length > refused + 3);
    expect([chat.status, callStates(chat.messages[1])]).toEqual(["ready", ["approval-requested"]]);
    server.serve(sessions);
    await until(() => textOf(chat.messages[1]) === "May I? Paid." && chat.status === "ready");
    expect([chat.error, chat.messages.length, callStates(chat.messages[1])]).toEqual([
      undefined,
      2,
      ["output-available"],
    ]);
  });

  test("shows the message and the reply of another client, live", async () => {
    const model = handModel();
    const sessions = sessionsOf(engine({ adapter: model, model: "hand:m" }));
    const server = serverOf(sessions);
    const chat = followingChat(server);
    const first = chat.sendMessage({ text: "Hi" });
    (await model.call(1)).finish();
    await first;
    await sessions.reply("chat", "And from me.");
    const call = await model.call(2);
    await call.say("Hello ");
    await until(() => textOf(chat.messages.at(-1)) === "Hello ");
    server.cut();
    await call.say("both.");
    call.finish();
    await until(() => textOf(chat.messages.at(-1)) === "Hello both." && chat.status === "ready");
    expect(chat.messages.at(-1)?.parts[0]).toMatchObject({
      type: "data-steering-message",
      data: { parts: [{ type: "text", text: "And from me." }] },
    });
  });

  test("shows a turn of the page itself once, and the person of the page may decide", async () => {
    const { server } = paying(asks("May I? ", "c1"), says("Paid."));
    const chat = followingChat(server);
    await chat.sendMessage({ text: "Pay" });
    const asked = chat.messages[1]?.parts.find((part) => "approval" in part);
    const id = asked !== undefined && "approval" in asked ? (asked.approval?.id ?? "") : "";
    await chat.addToolApprovalResponse({ id, approved: true });
    await until(() => textOf(chat.messages[1]) === "May I? Paid." && chat.status === "ready");
    await until(() => waits(server).some(({ url, status }) => url.includes("session=chat") && status === 200));
    expect([chat.messages.length, callStates(chat.messages[1])]).toEqual([2, ["output-available"]]);
    expect(server.sent.filter(({ method }) => method === "POST")).toHaveLength(2);
  });

  test("waits with one connection while nothing happens, and with none after it was left", async () => {
    const { server } = paying(says("Hi."));
    const chat = followingChat(server);
    await chat.sendMessage({ text: "Hi" });
    await until(() => server.open() === 1);
    const sent = server.sent.length;
    for (let turns = 0; turns < 20; turns += 1) await new Promise((resolve) => setImmediate(resolve));
    expect([server.open(), server.sent.length - sent]).toEqual([1, 0]);
    await chat.stop();
    await until(() => server.open() === 0);
    expect([chat.status, chat.error]).toEqual(["ready", undefined]);
  });

  test("shows a chat that another client has started", async () => {
    const { sessions, server } = paying(says("Hello."));
    const clock = handClock();
    const chat = followingChat(server, [], clock);
    await until(() => clock.sleepers > 0 && server.sent.at(-1)?.status === 204);
    await (
      await sessions.start("Hi", { id: "chat" })
    ).result;
    await clock.advance(10_000);
    await until(() => textOf(chat.messages.at(-1)) === "Hello." && chat.status === "ready");
  });
});
