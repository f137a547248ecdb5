// A stream as its reader sees it: nothing is read ahead, nothing is left open.

import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { frame, onAbort, sseBody } from "./sse.ts";

const limits = { bufferBytes: 1000, slowReaderMs: 60_000, heartbeatMs: 60_000 };

/** A source that counts what is taken from it, and knows whether it was closed. */
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
  const settings = { limits, clock: handClock(), shutdown: null, closed: () => (seen.closed += 1) };
  return { seen, source: { events: events(), render: (event: string) => event }, settings };
}

async function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(stream).text();
}

describe("reading", () => {
  test("takes no more from the source than the reader has room for", async () => {
    const { seen, source, settings } = counted(100, "x".repeat(400));
    const reader = sseBody(source, settings).getReader();
    const { value } = await reader.read();
    expect(value?.byteLength).toBe(400);
    // Room for two and a half; the one that was taken made room for another.
    await Promise.all(Array.from({ length: 50 }, () => Promise.resolve()));
    expect(seen.taken).toBeLessThanOrEqual(5);
    await reader.cancel();
    expect(seen).toMatchObject({ closed: 1 });
  });

  test("ends with the last word, and closes once", async () => {
    const { seen, source, settings } = counted(3, "x\n\n");
    const text = await textOf(sseBody({ ...source, last: async () => frame("{}", { event: "end" }) }, settings));
    expect(text).toBe("x\n\nx\n\nx\n\nevent: end\ndata: {}\n\n");
    expect(seen).toEqual({ taken: 3, returned: 1, closed: 1 });
  });

  test("leaves out what is not shown", async () => {
    const { source, settings } = counted(3, "x");
    expect(await textOf(sseBody({ ...source, render: () => "" }, settings))).toBe("");
  });

  test("says that reading failed, without what is the operator's", async () => {
    const { seen, source, settings } = counted(1, "x");
    const broken = {
      ...source,
      render: () => {
        throw new Error("the password is hunter2");
      },
    };
    const text = await textOf(sseBody(broken, settings));
    expect(text).toMatch(/^event: failure\ndata: \{"error":\{"type":"http_error","reason":"internal"/);
    expect(text).not.toContain("hunter2");
    expect(seen).toMatchObject({ returned: 1, closed: 1 });
  });

  test("ends at once where the process is about to stop already", async () => {
    const { seen, source, settings } = counted(1, "x");
    const text = await textOf(sseBody(source, { ...settings, shutdown: AbortSignal.abort() }));
    expect(text).toMatch(/^: this process stops/);
    expect(seen).toMatchObject({ taken: 0, closed: 1 });
  });

  test("a frame is a name, a place and one line", () => {
    expect(frame("1", { id: "7;2.1;text/0=12;t", event: "end" })).toBe(
      "event: end\nid: 7;2.1;text/0=12;t\ndata: 1\n\n",
    );
  });
});

describe("a stream that is quiet", () => {
  test("says so when nothing was said for a while, and no sooner", async () => {
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
    let heard = "";
    const reading = (async () => {
      for (let part = await reader.read(); !part.done; part = await reader.read()) heard += part.value;
    })();
    for (let times = 0; times < 4; times += 1) {
      await clock.advance(80);
      say("x");
    }
    await clock.advance(60);
    expect(heard).toBe("xxxx");
    await clock.advance(100);
    expect(heard).toBe("xxxx: still here\n\n");
    await reader.cancel();
    await reading;
    expect(clock.sleepers).toBe(0);
  });
});

test("what is to be done at a signal is done once, and not for those who have left", () => {
  const stop = new AbortController();
  const done: string[] = [];
  const leave = onAbort(stop.signal, () => done.push("left"));
  onAbort(stop.signal, () => done.push("here"));
  leave();
  stop.abort();
  expect(done).toEqual(["here"]);
});
