// Calls that Restate and its callers can make in unusual ways: any key, any body, any session id, at any time.

import { RuntimeError } from "everturn";
import { inspection } from "everturn/http";
import { restateSession } from "everturn/restate";
import { describe, expect, test } from "vitest";

import { deployment, driveRequest } from "../../../test/restate/hand-deployment.ts";
import { rejectionOf, replies } from "../../../test/runtime/sessions.ts";

const sessionRequest = (handler: string, key: string, input: unknown) => ({ ...driveRequest, handler, key, input });

/** Ids that are hard to write in a URL, a header or a path. */
const unusualIds = [
  "a/b",
  "../../..",
  ".",
  "%2F",
  "%",
  "%u0041",
  "a b\n",
  "é 漢 😀",
  "\ud800",
  "x\udfff\ud83d",
  "?delay=1h#",
  "\u0000",
];

describe("session ids", () => {
  test("that are hard to write are driven, found by the sweeper, and have a key each", async () => {
    const names = ["", "t", ...unusualIds].flatMap((tenant) =>
      (tenant === "" ? unusualIds : ["s"]).map((id) => ({ tenant, id })),
    );
    const texts = names.flatMap(() => ["one", "two"]);
    const { web, restate, clock } = deployment({ adapter: replies(...texts) }, { sweepMs: 1000 });
    const turns = await Promise.all(names.map(({ tenant, id }) => web.tenant(tenant).start("go", { id })));
    const ends = await Promise.all(turns.map(({ result }) => result));
    expect(ends.every(({ status }) => status === "ended")).toBe(true);
    await Promise.all(restate.of("drive").map(({ outcome }) => outcome));
    restate.loses = ({ handler }) => handler === "drive";
    const lost = await Promise.all(names.map(({ tenant, id }) => web.tenant(tenant).reply(id, "more")));
    // The first invocation has started the sweeper.
    await clock.advance(1000);
    const found = await Promise.all(lost.map(({ result }) => result));
    expect(found.every(({ status }) => status === "ended")).toBe(true);
    for (const handler of ["drive", "resume"]) {
      expect(new Set(restate.of(handler).map(({ request }) => request.key)).size).toBe(names.length);
    }
  });

  const { restate } = deployment({ adapter: replies("one") });
  test.each(["", "/", "no slash", "a/b/c", "/%", "/%zz", "/%73", "/%u0041", "/%2f", "/a b", "/\ud800"])(
    "a call with the key %j, which names no session, is refused and not repeated",
    async (key) => {
      for (const [handler, input] of [
        ["drive", {}],
        ["resume", {}],
        ["start", { input: "go" }],
        ["cancel", {}],
        ["result", { turnId: "t" }],
      ] as const) {
        const sent = restate.send(sessionRequest(handler, key, input));
        expect(await rejectionOf(sent.outcome)).toMatchObject({ name: "RefusedCall", status: 400 });
        expect(sent.attempts).toBe(1);
      }
    },
  );
});

describe("bodies", () => {
  /** A deployment with one session, in which nothing happens. */
  const idle = (async () => {
    const created = deployment({ adapter: replies("one") });
    await (
      await created.web.start("go", { id: "s" })
    ).result;
    return created;
  })();

  test.each([
    ["drive", null],
    ["drive", "text"],
    ["drive", { turnId: 5 }],
    ["drive", { turnId: "" }],
    ["drive", { continuation: -1 }],
    ["drive", { retries: 1e300 }],
    ["start", {}],
    ["start", { input: 5 }],
    ["start", { input: "go", options: "fast" }],
    ["start", { input: [{ role: "unknown" }] }],
    ["reply", { text: null }],
    ["reply", { text: "hi", options: { whenBusy: "never" } }],
    ["send", []],
    ["continue", { message: "text" }],
    ["step", { options: [] }],
    ["submitToolResults", { results: {} }],
    ["submitToolResults", { results: ["call"] }],
    ["decide", { toolCallId: "c" }],
    ["decide", { toolCallId: "c", decision: { type: "maybe" } }],
    ["steer", {}],
    ["steer", { input: { type: "unknown" } }],
    ["result", {}],
    ["result", { turnId: 5 }],
  ])("%s refuses %j and is not repeated", async (handler, input) => {
    const { restate } = await idle;
    const sent = restate.send(sessionRequest(handler, "/s", input));
    expect(await rejectionOf(sent.outcome)).toMatchObject({ name: "RefusedCall", status: 400 });
    expect(sent.attempts).toBe(1);
  });

  test("a body that is not JSON is refused, and an empty one has no fields", async () => {
    const { restate, web } = deployment({ adapter: replies("one") });
    await (
      await web.start("go", { id: "s" })
    ).result;
    const broken = restate.sendBytes(sessionRequest("drive", "/s", {}), new TextEncoder().encode("{"));
    expect(await rejectionOf(broken.outcome)).toMatchObject({ name: "RefusedCall", status: 400 });
    const empty = restate.sendBytes(sessionRequest("drive", "/s", {}), new Uint8Array());
    expect(await empty.outcome).toMatchObject({ status: "idle" });
  });

  test("a session of another tenant, and a turn of another session, are not found", async () => {
    const { restate, web } = deployment({ adapter: replies("one", "two") });
    const turn = await web.tenant("a").start("go", { id: "s" });
    await turn.result;
    expect(await restate.send(sessionRequest("drive", "b/s", { turnId: turn.turnId })).outcome).toMatchObject({
      status: "gone",
      next: null,
    });
    for (const [handler, input] of [
      ["reply", { text: "hi" }],
      ["cancel", {}],
      ["result", { turnId: turn.turnId }],
    ] as const) {
      const sent = restate.send(sessionRequest(handler, "b/s", input));
      expect(await rejectionOf(sent.outcome)).toMatchObject({ name: "RefusedCall", status: 404 });
    }
    await (
      await web.start("go", { id: "other" })
    ).result;
    const sent = restate.send(sessionRequest("result", "/other", { turnId: turn.turnId }));
    expect(await rejectionOf(sent.outcome)).toMatchObject({ name: "RefusedCall", status: 404 });
  });
});

describe("a runtime with a limit key", () => {
  test("sends its turns, in every tenant", async () => {
    const { web, restate } = deployment({ adapter: replies("one", "two") });
    const limited = web.limitedBy("user 1");
    expect(await (await limited.start("go", { id: "a" })).result).toMatchObject({ text: "one" });
    expect(await (await limited.tenant("t").start("go", { id: "b" })).result).toMatchObject({ text: "two" });
    expect(restate.of("drive").map(({ request }) => request.key)).toEqual(["/a", "t/b"]);
    const limitKeys = await Promise.all([
      inspection(web.source)
        .export("a")
        .then(({ data }) => data),
      inspection(web.tenant("t").source)
        .export("b")
        .then(({ data }) => data),
    ]);
    expect(JSON.stringify(limitKeys).match(/"user 1"/g)).toHaveLength(2);
  });
});

describe("scheduled input", () => {
  test.each(["réminder 😀", " padded ", "line\nbreak", "\ud800"])("has the key %j once", async (key) => {
    const { web, restate, clock } = deployment({ adapter: replies("one", "two", "three") });
    await (
      await web.start("go", { id: "s" })
    ).result;
    for (let count = 0; count < 2; count += 1) await web.sendLater("s", "later", { afterMs: 1000, key });
    await clock.advance(1000);
    expect(restate.of("send")).toHaveLength(1);
    expect((await web.get("s"))?.length).toBe(4);
  });

  test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, 1e300])("is refused for a delay of %d", async (afterMs) => {
    const { web, restate } = deployment({ adapter: replies("one") });
    expect(await rejectionOf(web.sendLater("s", "later", { afterMs }))).toMatchObject({ reason: "invalid_argument" });
    const session = restateSession(restate.context, { id: "s" });
    expect(() => session.sendLater("later", { afterMs })).toThrow(/afterMs must be/);
    expect(restate.invocations).toHaveLength(0);
  });

  test("rejects if Restate cannot be reached, because nothing is stored", async () => {
    const { web, restate } = deployment({ adapter: replies("one") });
    restate.loses = () => true;
    expect(await rejectionOf(web.sendLater("s", "later", { afterMs: 5 }))).toBeInstanceOf(RuntimeError);
  });
});
