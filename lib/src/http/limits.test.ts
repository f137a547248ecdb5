// Everything a client can grow has an end, and giving back what was taken is never forgotten.

import type { HttpOptions } from "everturn/http";

import { engine } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { handModel } from "../../test/hand-model.ts";
import { Gate } from "./limits.ts";

function world(limits: NonNullable<HttpOptions["limits"]>) {
  const model = handModel();
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: model, model: "hand:m" }) },
  });
  const handler = createHandler({ sessions, auth: "none", limits });
  const post = (path: string, body: unknown, accept = "application/json") =>
    handler(
      new Request(`http://localhost${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", accept },
        body: JSON.stringify(body),
      }),
    );
  const get = (path: string) => handler(new Request(`http://localhost${path}`));
  return { model, sessions, post, get };
}

describe("a tenant", () => {
  test("has so many turns open and no more, and has its place back when one ends", async () => {
    const { model, sessions, post } = world({ turnsPerTenant: 1 });
    expect((await post("/sessions", { input: "one", id: "s1" })).status).toBe(202);
    const refused = await post("/sessions", { input: "two", id: "s2" });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await sessions.get("s2")).toBeNull();
    (await model.call(1)).finish();
    await sessions.attach("s1").result;
    expect((await post("/sessions", { input: "two", id: "s2" })).status).toBe(202);
    (await model.call(2)).finish();
    await sessions.attach("s2").result;
  });

  test("that is refused for another reason keeps no place", async () => {
    const { post } = world({ turnsPerTenant: 1 });
    for (let times = 0; times < 3; times += 1)
      expect((await post("/sessions/none/reply", { text: "x" })).status).toBe(404);
  });

  test("has so many streams open, and has its place back when one is left", async () => {
    const { model, sessions, post, get } = world({ streamsPerTenant: 1 });
    const first = await post("/sessions", { input: "one", id: "s1" }, "text/event-stream");
    expect((await get("/sessions/s1/events")).status).toBe(429);
    await first.body?.cancel();
    const second = await get("/sessions/s1/events");
    expect(second.status).toBe(200);
    await second.body?.cancel();
    (await model.call(1)).finish();
    await sessions.attach("s1").result;
  });
});

describe("a stream", () => {
  test("says that it is still here when there is nothing else to say", async () => {
    const { model, sessions, post } = world({ heartbeatMs: 5 });
    const response = await post("/sessions", { input: "one", id: "s1" }, "text/event-stream");
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let heard = "";
    while (!heard.includes(": still here\n\n: still here\n\n")) heard += (await reader?.read())?.value ?? "";
    (await model.call(1)).finish();
    await sessions.attach("s1").result;
    await reader?.cancel();
  });

  test("lets a reader go that takes nothing, and the turn does not wait for it", async () => {
    const { model, sessions, post } = world({ bufferBytes: 2000, slowReaderMs: 20 });
    const response = await post("/sessions", { input: "one", id: "s1" }, "text/event-stream");
    const reader = response.body?.getReader();
    const call = await model.call(1);
    for (let times = 0; times < 20; times += 1) await call.say("x".repeat(1000));
    call.finish();
    await expect(reader?.closed).rejects.toThrow(/taken nothing for 20 ms/);
    const { text } = await sessions.attach("s1", response.headers.get("everturn-turn")).result;
    expect(text.length).toBe(20_000);
  });
});

describe("a gate", () => {
  test("is left once, however often one leaves", () => {
    const gate = new Gate(1, "guests");
    const leave = gate.enter("a");
    leave();
    leave();
    const again = gate.enter("a");
    expect(() => gate.enter("a")).toThrow("there are 1 guests already");
    expect(() => gate.enter("b")).not.toThrow();
    again();
  });
});

test.each([
  ["0", { streams: 0 }],
  ["less than nothing", { bodyBytes: -1 }],
  ["no number", { requests: Number.NaN }],
])("a limit of %s is misuse", (_, limits) => {
  expect(() => world(limits)).toThrow(/limits: \w+ has to be a number of 1 or more/);
});
