// Which spans observers see, and when they end.

import type { SpanEnd, SpanObserver, SpanStart } from "../engine/internal.ts";

import { chat, fake, engine, fail, stream, tool } from "everturn";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";

import { calls, plain, playing, says } from "../../../test/runs.ts";
import { observeSpans } from "../engine/internal.ts";

/** Lists starts and ends as lines: `start tool < chat`, `end tool`, `end tool: timeout`. */
function recordSpans(requestId: string) {
  const lines: string[] = [];
  const names = new Map<unknown, string>();
  const ends: SpanEnd[] = [];
  const starts: SpanStart[] = [];
  const observer: SpanObserver = {
    start: (span) => {
      if (span.requestId !== requestId && span.parent === null) return null;
      const parent = names.get(span.parent);
      starts.push(span);
      lines.push(`start ${span.name}${parent === undefined ? "" : ` < ${parent}`}`);
      const observed = {
        within: <T>(work: () => T): T => work(),
        stopped: () => undefined,
        ended: (end: SpanEnd) => {
          ends.push(end);
          lines.push(`end ${span.name}${end.error === null ? "" : `: ${end.error.type}`}`);
        },
      };
      names.set(observed, span.name);
      return observed;
    },
  };
  removals.push(observeSpans(observer));
  return { lines, ends, starts };
}

const removals: (() => void)[] = [];
afterEach(() => {
  for (const remove of removals.splice(0)) remove();
});

const ok = plain("ok", () => "fine");

describe("span observers of a run in memory", () => {
  test("see one start and one end for the run, each attempt of a model call and each tool call, inside each other", async () => {
    const { lines, ends, starts } = recordSpans("spans-1");
    const scripts = [[{ type: "error", reason: "timeout" } as const], calls("ok", "ok"), says("Done.")];
    const { engine: of, clock } = playing(scripts, [ok]);
    const result = chat(of, "hi", { requestId: "spans-1" });
    await clock.advance(500);
    await result;
    expect(lines).toEqual([
      "start chat",
      "start model < chat",
      "end model: timeout",
      "start model < chat",
      "end model",
      "start tool < chat",
      "start tool < chat",
      "end tool",
      "end tool",
      "start model < chat",
      "end model",
      "end chat",
    ]);
    expect(starts.map(({ key }) => key)).toEqual(starts.map(() => null));
    expect(ends.at(-1)?.result).toMatchObject({ haltedReason: "completed", steps: 2 });
  });

  test("see the spans of an inner turn inside the tool call that runs it", async () => {
    const { lines } = recordSpans("spans-2");
    const inner = engine({ adapter: fake({ script: [{ type: "text", text: "inner" }] }) });
    const asks = tool({
      name: "asks",
      description: "Asks another engine.",
      schema: z.object({}),
      handler: async (_, { runChild }) => (await runChild(inner, "hi")).haltedReason,
    });
    await chat(playing([calls("asks"), says("Done.")], [asks]).engine, "hi", { requestId: "spans-2" });
    expect(lines.slice(2, 8)).toEqual([
      "end model",
      "start tool < chat",
      "start chat < tool",
      "start model < chat",
      "end model",
      "end chat",
    ]);
  });

  test("see a cancelled run end, with the tool call that ignores the signal", async () => {
    const { lines } = recordSpans("spans-3");
    const stop = new AbortController();
    const hangs = plain("hangs", () => {
      stop.abort();
      return new Promise(() => undefined);
    });
    const { engine: of } = playing([calls("hangs")], [hangs]);
    const result = await chat(of, "hi", { requestId: "spans-3", signal: stop.signal, cancelGraceMs: 0 });
    expect(result.haltedReason).toBe("cancelled");
    expect(lines.slice(3)).toEqual(["start tool < chat", "end tool: cancelled", "end chat"]);
  });

  test("see a rejected run end with its error", async () => {
    const { lines } = recordSpans("spans-4");
    const haltWhen = () => {
      throw new RangeError("mine");
    };
    await expect(
      chat(playing([calls("ok"), says("Done.")], [ok]).engine, "hi", { requestId: "spans-4", haltWhen }),
    ).rejects.toThrow("mine");
    expect(lines.slice(-1)).toEqual(["end chat: RangeError"]);
    expect(lines.filter((line) => line.startsWith("start"))).toHaveLength(
      lines.filter((line) => line.startsWith("end")).length,
    );
  });

  test("see the reason of a tool that returns a failure, and the time to the first output", async () => {
    const { ends } = recordSpans("spans-5");
    const fails = plain("fails", () => fail("no money"));
    const events = stream(playing([calls("fails"), says("Done.")], [fails]).engine, "hi", { requestId: "spans-5" });
    await events.result;
    expect(ends.map(({ result }) => result)).toMatchObject([
      { finishReason: "tool_calls", firstOutputMs: 0 },
      { error: "handler_failed" },
      { finishReason: "stop", firstOutputMs: 0 },
      {},
    ]);
  });

  test("that throw are removed, and the run goes on", async () => {
    let starts = 0;
    const broken = () => {
      starts += 1;
      throw new Error("broken observer");
    };
    removals.push(observeSpans({ start: broken, traceOf: broken }));
    const result = await chat(playing([says("Done.")]).engine, "hi");
    expect([result.haltedReason, starts]).toEqual(["completed", 1]);
  });
});
