// Exceptions of tools over HTTP: callers read a general message with the id of the call, on every route; the model
// reads the text unless `hideErrorsFromModel` is set.

import { configure, engine, fake, tool } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterEach, describe, expect, test } from "vitest";

import { chatDialects } from "../../../test/dialects.ts";

const detail = "connect ECONNREFUSED db.internal:5432";
afterEach(() => void configure({ redact: null }));

function server(options: { readonly hideErrorsFromModel?: boolean } = {}, text = "Sorry.") {
  const query = tool({
    name: "query",
    description: "Queries.",
    schema: { type: "object" },
    handler: () => Promise.reject(new Error(detail)),
  });
  const adapter = fake({
    scripts: [[{ type: "tool_call", id: "call-7", name: "query", arguments: {} }], [{ type: "text", text }]],
  });
  const of = engine({ adapter, model: "fake:m", tools: [query], options });
  const sessions = runtime({ host: memoryStorage(), engines: { default: of } });
  const handler = createHandler({ sessions, dialects: chatDialects, auth: "none", records: true });
  const ask = async (path: string, body?: object, headers: { readonly [name: string]: string } = {}) => {
    const init = { method: "POST", body: JSON.stringify(body) };
    const json = { "content-type": "application/json", ...headers };
    return (
      await handler(new Request(`http://localhost${path}`, { ...(body === undefined ? {} : init), headers: json }))
    ).text();
  };
  return { adapter, ask, sessions };
}

describe("the text of an exception of a tool", () => {
  test("is on no route; a general message with the id of the call is", async () => {
    const { ask, adapter, sessions } = server();
    const started = await ask("/sessions", { id: "s1", input: "hi" }, { prefer: "wait=10" });
    const texts = [
      started,
      await ask("/sessions/s1"),
      await ask("/sessions/s1/messages"),
      await ask("/sessions/s1/events?follow=false"),
      await ask("/ui/chat/s1"),
    ];
    for (const text of texts) expect(text).not.toContain("ECONNREFUSED");
    expect(texts[2]).toContain("the tool failed (error of call call-7)");
    expect(texts[3]).toContain("the tool failed (error of call call-7)");
    // The model and the operator read it.
    expect(JSON.stringify(adapter.calls[1]?.request.messages)).toContain(detail);
    expect(JSON.stringify(await sessions.messages("s1"))).toContain(detail);
  });

  test("is hidden from the model with hideErrorsFromModel", async () => {
    const { ask, adapter } = server({ hideErrorsFromModel: true });
    await ask("/sessions", { id: "s1", input: "hi" }, { prefer: "wait=10" });
    const seen = JSON.stringify(adapter.calls[1]?.request.messages);
    expect(seen).not.toContain("ECONNREFUSED");
    expect(seen).toContain("the tool failed");
  });
});

test("the redaction hook applies to messages and events in responses, and not to ids", async () => {
  configure({ redact: (text, place) => text.replaceAll(/\d{4}-\d{4}/g, `<${place}>`) });
  const { ask } = server({}, "Your card is 1234-5678.");
  await ask("/sessions", { id: "s-1111-2222", input: "My card is 1234-5678." }, { prefer: "wait=10" });
  const messages = await ask("/sessions/s-1111-2222/messages");
  expect(messages).toContain("Your card is <message>.");
  expect(messages).not.toContain("1234-5678");
  const events = await ask("/sessions/s-1111-2222/events?follow=false");
  expect(events).toContain("<event>");
  expect(events).not.toContain("1234-5678");
  expect(await ask("/sessions/s-1111-2222")).toContain("s-1111-2222");
});

test("the redaction hook applies to all of the data in calls and results, whatever its fields are named", async () => {
  configure({ redact: (text, place) => text.replaceAll(/\d{4}-\d{4}/g, `<${place}>`) });
  const card = "1234-5678";
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: () => ({ id: card, list: [{ status: card }], [card]: true }),
  });
  const args = { id: card, type: card, nested: { role: card, [card]: [card] } };
  const scripts = [
    [{ type: "tool_call", id: "c-1111-2222", name: "look", arguments: args } as const],
    [{ type: "text", text: "Done." } as const],
  ];
  const of = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [look] });
  const sessions = runtime({ host: memoryStorage(), engines: { default: of } });
  const { result, turnId } = await sessions.start("hi", { id: "s1", metadata: { id: card } });
  await result;
  const handler = createHandler({ sessions, dialects: chatDialects, auth: "none", records: true });
  for (const path of ["", "/messages", "/events?follow=false", `/turns/${turnId}`, `/turns/${turnId}/record`]) {
    const text = await (await handler(new Request(`http://localhost/sessions/s1${path}`))).text();
    expect(text, path).not.toContain(card);
    expect(text, path).toMatch(/<(?:message|event|record)>/);
    if (/^.(?:messages|events)/.test(path)) expect(text, path).toContain("c-1111-2222");
    if (!path.endsWith("record")) expect(text, path).not.toMatch(/c-<(?:message|event)>/);
  }
  const chat = await (await handler(new Request("http://localhost/ui/chat/s1"))).text();
  expect(chat).not.toContain(card);
});
