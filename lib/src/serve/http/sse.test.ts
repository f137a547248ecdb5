// SSE streams as their reader sees them: backpressure, heartbeats, and the release of all resources.

import { RuntimeError } from "everturn";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { ByteBudget } from "./byte-budget.ts";
import { LargeText } from "./large-text.ts";
import { completeBody, frame, onAbort, sseBody } from "./sse.ts";

const limits = { bufferBytes: 1000, slowReaderMs: 60_000, heartbeatMs: 60_000 };

/** A source that counts the events taken from it and how often it was closed. */
function counted(total: number, text: string) {
  const seen = { taken: 0, returned: 0, closed: 0 };
  async function* events(): AsyncGenerator<string> {
    try {
      for (; seen.taken < total;) {
        seen.taken += 1;
        yield text;
      }
    } finally {
      seen.returned += 1;
    }
  }
  const settings = { limits, clock: handClock(), shutdown: null, onClose: () => (seen.closed += 1) };
  return { seen, source: { events: events(), render: (event: string) => event }, settings };
}

async function streamText(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(stream).text();
}

describe("an SSE body", () => {
  test("takes no more from the source than the buffer holds (backpressure)", async () => {
    const { seen, source, settings } = counted(100, "x".repeat(400));
    const reader = sseBody(source, settings).getReader();
    const { value } = await reader.read();
    expect(value?.byteLength).toBe(400);
    // The buffer holds two and a half events; the event that was read made room for another.
    await Promise.all(Array.from({ length: 50 }, () => Promise.resolve()));
    expect(seen.taken).toBeLessThanOrEqual(5);
    await reader.cancel();
    expect(seen).toMatchObject({ closed: 1 });
  });

  test("ends with the final frames and closes once", async () => {
    const { seen, source, settings } = counted(3, "x\n\n");
    const text = await streamText(
      sseBody({ ...source, finalFrames: async () => frame("{}", { event: "end" }) }, settings),
    );
    expect(text).toBe("x\n\nx\n\nx\n\nevent: end\ndata: {}\n\n");
    expect(seen).toEqual({ taken: 3, returned: 1, closed: 1 });
  });

  test("skips events that render as an empty string", async () => {
    const { source, settings } = counted(3, "x");
    expect(await streamText(sseBody({ ...source, render: () => "" }, settings))).toBe("");
  });

  test("ends with a redacted failure frame if the source throws", async () => {
    const { seen, source, settings } = counted(1, "x");
    const broken = {
      ...source,
      render: () => {
        throw new Error("the password is hunter2");
      },
    };
    const text = await streamText(sseBody(broken, settings));
    expect(text).toMatch(/^event: failure\ndata: \{"error":\{"type":"http_error","reason":"internal"/);
    expect(text).not.toContain("hunter2");
    expect(seen).toMatchObject({ returned: 1, closed: 1 });
  });

  test("ends at once if the process is already shutting down", async () => {
    const { seen, source, settings } = counted(1, "x");
    const text = await streamText(sseBody(source, { ...settings, shutdown: AbortSignal.abort() }));
    expect(text).toMatch(/^: server shutting down/);
    expect(seen).toMatchObject({ taken: 0, closed: 1 });
  });

  test("ends as at a shutdown if another process continues the turn", async () => {
    const { seen, source, settings } = counted(1, "x");
    const left = new RuntimeError("lease_lost", { message: "this process was closed" });
    async function* waiting(): AsyncGenerator<string> {
      await new Promise(() => undefined);
      yield "";
    }
    const body = sseBody({ ...source, events: waiting(), failWith: Promise.reject(left) }, settings);
    expect(await streamText(body)).toMatch(/^: server shutting down/);
    expect(seen).toMatchObject({ closed: 1 });
  });

  test("renders a frame as event, id and one data line", () => {
    expect(frame("1", { id: "7;2.1;text/0=12;t", event: "end" })).toBe(
      "event: end\nid: 7;2.1;text/0=12;t\ndata: 1\n\n",
    );
  });
});

describe("heartbeats", () => {
  test("are sent after heartbeatMs without a write, and not before", async () => {
    let say: (text: string) => void = () => undefined;
    async function* events(): AsyncGenerator<string> {
      for (;;) yield await new Promise<string>((resolve) => (say = resolve));
    }
    const { source, settings } = counted(0, "");
    const { clock } = settings;
    const quick = { ...settings, limits: { ...limits, heartbeatMs: 100 } };
    const reader = sseBody({ ...source, events: events() }, quick)
      .pipeThrough(new TextDecoderStream())
      .getReader();
    let received = "";
    const reading = (async () => {
      for (let part = await reader.read(); !part.done; part = await reader.read()) received += part.value;
    })();
    for (let times = 0; times < 4; times += 1) {
      await clock.advance(80);
      say("x");
    }
    await clock.advance(60);
    expect(received).toBe("xxxx");
    await clock.advance(100);
    expect(received).toBe("xxxx: heartbeat\n\n");
    await reader.cancel();
    await reading;
    expect(clock.sleepers).toBe(0);
  });
});

test("onAbort calls each callback once, and not after it was removed", () => {
  const stop = new AbortController();
  const done: string[] = [];
  const remove = onAbort(stop.signal, () => done.push("removed"));
  onAbort(stop.signal, () => done.push("registered"));
  remove();
  stop.abort();
  expect(done).toEqual(["registered"]);
});

describe("bytes that clients have not read", () => {
  const large = "x".repeat(200_000);

  function world(tenant = 500_000, process = 900_000) {
    const clock = handClock();
    const budget = new ByteBudget({ tenant, process }, clock);
    const open = (name: string, count = 3) => {
      const { source, settings, seen } = counted(count, large);
      const openAccount = (cut: () => void) => budget.open(name, cut);
      const reader = sseBody(source, { ...settings, clock, openAccount }).getReader();
      return { reader, seen };
    };
    const settled = () => new Promise((resolve) => setImmediate(resolve));
    return { clock, budget, open, settled };
  }

  async function bytesOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<number> {
    let bytes = 0;
    for (let part = await reader.read(); !part.done; part = await reader.read()) bytes += part.value.byteLength;
    return bytes;
  }

  test("are given back as the client reads, and a large frame arrives complete, in slices", async () => {
    const { budget, open } = world();
    const { reader } = open("a");
    const first = await reader.read();
    expect(first.value?.byteLength).toBe(65_536);
    expect(budget.held).toBeGreaterThan(100_000);
    expect(await bytesOf(reader)).toBe(3 * 200_000 - 65_536);
    expect(budget.held).toBe(0);
  });

  test("are bounded by tenant: a stream waits, and another tenant does not", async () => {
    const { budget, open, settled, clock } = world();
    const stalled = [open("a"), open("a"), open("a")];
    await settled();
    expect(budget.held).toBe(400_000);
    const other = open("b");
    expect((await other.reader.read()).value?.byteLength).toBe(65_536);
    expect(budget.held).toBeLessThanOrEqual(600_000);
    // Clients that have stalled for a second are disconnected when their memory is needed.
    await clock.advance(1500);
    await settled();
    const [one, two, waiting] = stalled;
    await expect(one?.reader.closed).rejects.toThrow("disconnected");
    await expect(two?.reader.closed).rejects.toThrow("disconnected");
    expect((await waiting?.reader.read())?.value?.byteLength).toBe(65_536);
    await waiting?.reader.cancel();
    await other.reader.cancel();
    expect(budget.held).toBe(0);
  });

  test("of waiting streams are bounded too: further streams are disconnected", async () => {
    const { open, settled } = world(250_000);
    const streams = Array.from({ length: 4 }, () => open("a"));
    await settled();
    await settled();
    const closed = await Promise.all(
      streams.map(async ({ reader }) => {
        const state = reader.closed.then(
          () => "ended",
          () => "cut",
        );
        return Promise.race([state, settled().then(() => "open")]);
      }),
    );
    expect(closed.toSorted()).toEqual(["cut", "cut", "open", "open"]);
    for (const { reader } of streams) await reader.cancel().catch(() => undefined);
  });

  test("are given back although the stream waits for its next event", async () => {
    const { budget, clock, settled } = world();
    const { settings } = counted(0, "");
    async function* events() {
      yield "x".repeat(500);
      await new Promise(() => undefined);
    }
    const openAccount = (cut: () => void) => budget.open("a", cut);
    const reader = sseBody(
      { events: events(), render: (text) => text },
      { ...settings, clock, openAccount },
    ).getReader();
    await settled();
    expect(budget.held).toBe(500);
    await reader.read();
    await clock.advance(500);
    expect(budget.held).toBe(0);
    await reader.cancel();
  });

  test("of a complete body are sent in slices, without heartbeats", async () => {
    const { budget, clock } = world();
    const account = budget.open("a", () => undefined);
    expect(account.take(200_000)).toBe("taken");
    const openAccount = (cut: () => void) => Object.assign(account, { cut });
    const reader = completeBody(LargeText.of(large), {
      limits,
      clock,
      openAccount,
      onClose: () => undefined,
    }).getReader();
    await reader.read();
    await clock.advance(59_000);
    expect(await bytesOf(reader)).toBe(200_000 - 65_536);
    expect(budget.held).toBe(0);
  });

  test("of a complete body are not sent after the key of its client has ended, and the connection is reset", async () => {
    const { budget, clock } = world();
    const account = budget.open("a", () => undefined);
    expect(account.take(200_000)).toBe("taken");
    const openAccount = (cut: () => void) => Object.assign(account, { cut });
    const key = new AbortController();
    const settings = { limits, clock, openAccount, onClose: () => undefined, ended: key.signal };
    const reader = completeBody(LargeText.of(large), settings).getReader();
    await reader.read();
    key.abort(new Error("revoked"));
    await expect(bytesOf(reader)).rejects.toThrow("the client was disconnected: its key is not valid any more");
    expect(budget.held).toBe(0);
  });

  test("of a complete body are held until its client reads them", async () => {
    const { budget, clock, settled } = world();
    const account = budget.open("a", () => undefined);
    expect(account.take(200_000)).toBe("taken");
    const openAccount = (cut: () => void) => Object.assign(account, { cut });
    const reader = completeBody(LargeText.of(large), {
      limits,
      clock,
      openAccount,
      onClose: () => undefined,
    }).getReader();
    await settled();
    expect(budget.held).toBe(200_000);
    await reader.read();
    await settled();
    expect(budget.held).toBeLessThan(150_000);
    expect(budget.held).toBeGreaterThan(0);
    await reader.cancel();
    expect(budget.held).toBe(0);
  });

  test("are rendered when they are needed: a client that does not read costs one slice", async () => {
    const { settled, clock } = world();
    const { settings } = counted(0, "");
    const text = LargeText.of("x".repeat(1_000_000));
    async function* events() {
      yield text;
    }
    const reader = sseBody({ events: events(), render: (one) => one }, { ...settings, clock }).getReader();
    await settled();
    expect(text.length).toBe(1_000_000 - 65_536);
    await reader.cancel();
  });

  test("no heartbeat is written inside of a frame", async () => {
    const { source, settings } = counted(1, large);
    const clock = handClock();
    const reader = sseBody(source, { ...settings, clock, limits: { ...limits, heartbeatMs: 5000 } }).getReader();
    const parts = [(await reader.read()).value];
    await clock.advance(30_000);
    for (let part = await reader.read(); !part.done; part = await reader.read()) parts.push(part.value);
    const text = parts.map((part) => new TextDecoder().decode(part)).join("");
    expect(text).toBe(large);
  });
});
