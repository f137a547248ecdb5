// The texts of providers over HTTP: for every reason of a failed model call, and on every route and dialect, callers
// read the library's words; operators read what the provider sent.

import type { Adapter, Engine, Failure } from "everturn";

import { assistant, engine, openai } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { allDialects } from "../../../test/dialects.ts";
import {
  AdapterError,
  adapterErrorReasons,
  adapterFailure,
  streamErrorReasons,
  streamFailure,
} from "../../core/model/internal.ts";

/** In every text that the provider sends. */
const secret = "org-acme-4711";
const operator = "the-token-of-the-operator";
const caller = "the-token-of-the-caller-1";

const details = {
  provider: "openai",
  message: `openai: the deployment of ${secret} was refused`,
  requestId: `req_${secret}`,
  code: `code_${secret}`,
  raw: `{"error":"${secret}"}`,
  status: 400,
  metadata: { account: secret },
  cause: new Error(`fetch of ${secret}`),
};

/** How a model call fails: before its first event, after its first text, or with a failure of its stream. */
const failures: readonly (readonly [name: string, adapter: Adapter])[] = [
  ...adapterErrorReasons.flatMap((reason) => [
    [
      `${reason}, thrown`,
      adapterOf(() => {
        throw new AdapterError(reason, details);
      }),
    ] as const,
    [`${reason}, in the stream`, adapterOf(() => adapterFailure(reason, details))] as const,
  ]),
  ...streamErrorReasons.map(
    (reason) => [`${reason} of the stream`, adapterOf(() => streamFailure(reason, details))] as const,
  ),
];

function adapterOf(failure: () => Failure): Adapter {
  return {
    provider: "openai",
    stream: async function* stream() {
      const error = failure();
      yield [{ type: "message_started", message: assistant("") }];
      yield [{ type: "text_delta", id: null, delta: "Half" }];
      yield [{ type: "error", error }];
    },
  };
}

function server(agent: Engine) {
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent }, onTurnFailure: () => undefined });
  const handler = createHandler({
    sessions,
    auth: [
      { token: operator, operator: true, tenant: "shop" },
      { token: caller, name: "ada", tenant: "shop" },
    ],
    inspect: true,
    dialects: allDialects({ default: agent }),
    onError: () => undefined,
    onRefused: () => undefined,
  });
  const ask = async (token: string, path: string, body?: object): Promise<string> => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", prefer: "wait=10" };
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const response = await handler(new Request(`http://localhost${path}`, { ...init, headers }));
    return `${JSON.stringify([...response.headers])} ${await response.text()}`;
  };
  return { ask, sessions };
}

const uiBody = (id: string) => ({ id, messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "hi" }] }] });
const agUiBody = (id: string) => ({
  threadId: id,
  runId: "r1",
  state: {},
  messages: [{ id: "m1", role: "user", content: "hi" }],
  tools: [],
  context: [],
  forwardedProps: {},
});
const completion = { model: "default", messages: [{ role: "user", content: "hi" }] };

/** Every way of a caller to a failed turn, by a name. */
async function readings(served: ReturnType<typeof server>): Promise<ReadonlyMap<string, string>> {
  const { ask } = served;
  const texts = new Map<string, string>();
  const read = async (name: string, path: string, body?: object) => void texts.set(name, await ask(caller, path, body));
  await read("start", "/sessions", { id: "s1", input: "hi" });
  await read("chat", "/ui/chat", uiBody("s2"));
  await read("ag-ui", "/ag-ui", agUiBody("s3"));
  await read("completion", "/v1/chat/completions", completion);
  await read("streamed completion", "/v1/chat/completions", { ...completion, stream: true });
  await read("list", "/sessions");
  await read("search", "/search?q=hi");
  for (const id of ["s1", "s2", "s3"]) {
    const turnId = await turnOf(served, id);
    for (const path of [
      "",
      "/messages",
      "/usage",
      "/events?follow=false",
      "/turns",
      `/turns/${turnId}`,
      `/turns/${turnId}/events?follow=false`,
      `/turns/${turnId}/timeline`,
      `/turns/${turnId}/effects/0`,
      `/turns/${turnId}/effects/1`,
    ])
      await read(`${id}${path}`, `/sessions/${id}${path}`);
    await read(`loaded chat ${id}`, `/ui/chat/${id}`);
    await read(`stream of chat ${id}`, `/ui/chat/${id}/stream`);
    await read(`reply ${id}`, `/sessions/${id}/reply`, { text: "again" });
  }
  return texts;
}

/** The places at which a caller reads a text of the provider. */
function leaks(texts: ReadonlyMap<string, string>): readonly string[] {
  return [...texts].flatMap(([place, text]) => {
    const at = text.indexOf(secret);
    return at < 0 ? [] : [`${place}: ${text.slice(Math.max(0, at - 60), at + 40)}`];
  });
}

async function turnOf({ sessions }: ReturnType<typeof server>, id: string): Promise<string> {
  return (await sessions.tenant("shop").get(id))?.session.lastRun?.turnId ?? "none";
}

describe("a failed model call", () => {
  test.each(failures)("%s: callers read its reason, operators what the provider sent", async (name, adapter) => {
    const served = server(engine({ adapter, model: "m", retry: { maxAttempts: 1 } }));
    const texts = await readings(served);
    expect(leaks(texts)).toEqual([]);
    const [reason = ""] = name.split(/[, ]/);
    for (const place of ["start", "chat", "ag-ui", "completion", "streamed completion", "s1", "loaded chat s2"])
      expect(texts.get(place), place).toContain(`the model call failed: ${reason}`);
    const timeline = await served.ask(operator, `/sessions/s1/turns/${await turnOf(served, "s1")}/timeline`);
    for (const text of [details.message, details.requestId, details.code]) expect(timeline).toContain(text);
  });
});

test("the id of the request of a reply reaches operators, and not callers", async () => {
  const chunk = {
    id: "resp_1",
    object: "chat.completion.chunk",
    model: "gpt",
    choices: [{ index: 0, finish_reason: "stop", delta: { role: "assistant", content: "Hello." } }],
  };
  const fetch = async (): Promise<Response> =>
    new Response(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`, {
      headers: { "content-type": "text/event-stream", "x-request-id": `req_${secret}`, "openai-organization": secret },
    });
  const adapter = openai({ api: "chat", apiKey: "sk-test", fetch, baseURL: `https://${secret}.example/v1` });
  const served = server(engine({ adapter, model: "gpt-6.1-sol" }));
  const texts = await readings(served);
  expect(texts.get("start")).toContain("Hello.");
  expect(leaks(texts)).toEqual([]);
  const detail = await served.ask(operator, `/sessions/s1/turns/${await turnOf(served, "s1")}/effects/1`);
  expect(detail).toContain(`req_${secret}`);
});
