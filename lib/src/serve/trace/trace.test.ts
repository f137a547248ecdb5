// Spans as lines of JSON, and the page that shows them.

import type { TraceRecord } from "everturn/middleware";

import { chat, engine, fake, tool, configure } from "everturn";
import { traceTo, traceViewer } from "everturn/middleware";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterEach, describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../../test/runs.ts";
import { pausedProcess } from "../../../test/runtime/two-processes.ts";

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

function traced(options: Parameters<typeof traceTo>[1] = {}) {
  const lines: string[] = [];
  stops.push(traceTo((line) => lines.push(line), options));
  return { lines, records: () => lines.map((line): TraceRecord => JSON.parse(line)) };
}

const ok = plain("ok", () => "fine");

describe("[lash 92] a trace", () => {
  test("has exactly one start and one end for each span, with its parent", async () => {
    const { records, lines } = traced();
    await chat(playing([calls("ok", "ok"), says("Done.")], [ok]).engine, "hi", { requestId: "r1" });
    expect(lines.every((line) => line.endsWith("\n") && !line.slice(0, -1).includes("\n"))).toBe(true);
    const names = new Map(records().map(({ span, name }) => [span, name]));
    const started = records().filter(({ type }) => type === "span_started");
    expect(started.map(({ name, parent }) => `${name} < ${names.get(parent ?? "") ?? "none"}`)).toEqual([
      "chat < none",
      "model < chat",
      "tool < chat",
      "tool < chat",
      "model < chat",
    ]);
    const ended = records().filter(({ type }) => type === "span_ended");
    expect(ended.map(({ span }) => span).toSorted()).toEqual(started.map(({ span }) => span).toSorted());
    expect(ended.at(-1)).toMatchObject({ name: "chat", error: null, result: { haltedReason: "completed", steps: 2 } });
    expect(new Set(records().map(({ requestId }) => requestId))).toEqual(new Set(["r1"]));
  });

  test("has the same span in each process that drives a durable turn, and one end of it", async () => {
    const { records } = traced();
    const { clock, model, gate, first, second } = pausedProcess();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    gate.hold();
    call.finish();
    await clock.advance(400);
    await second.recover();
    (await model.call(2)).finish();
    await second.attach("s", turn.turnId).result;
    gate.release();
    await clock.advance(1000);
    const spans = (type: string) => records().flatMap((record) => (record.type === type ? [record.span] : []));
    expect(spans("span_started")).toHaveLength(4);
    expect(spans("span_ended")).toEqual([...new Set(spans("span_started"))].toReversed());
    expect(spans("span_ended").at(-1)).toBe(turn.turnId);
  });

  test("has no content by default, and redacted content of limited length with captureContent", async () => {
    const look = tool({
      name: "look",
      description: "Looks.",
      schema: { type: "object" },
      handler: () => "secret result",
    });
    const run = () => chat(playing([calls("look"), says("secret answer")], [look]).engine, `secret ${"x".repeat(500)}`);
    const quiet = traced();
    await run();
    expect(quiet.lines.join("")).not.toMatch(/secret/);
    const before = configure({ redact: (text) => text.replaceAll("secret", "[hidden]") });
    const full = traced({ captureContent: true, maxTextLength: 100 });
    await run();
    configure(before);
    expect(full.lines.join("")).not.toMatch(/secret|x{200}/);
    expect(full.lines.join("")).toMatch(/\[hidden\] result[^]*\[hidden\] answer/);
  });

  test("ends when its write function throws, and the run goes on", async () => {
    let writes = 0;
    stops.push(
      traceTo(() => {
        writes += 1;
        throw new Error("the disk is full");
      }),
    );
    expect((await chat(playing([says("Done.")]).engine, "hi")).haltedReason).toBe("completed");
    expect(writes).toBe(1);
  });
});

describe("[lash 93] the trace viewer", () => {
  const dataOf = (html: string) => {
    const [, json = ""] = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(html) ?? [];
    const data: {
      totals: string[];
      tabs: string[];
      cards: {
        kind: string;
        tabs: string[];
        title: string;
        depth: number;
        summary: string;
        raw: string;
        failed: boolean;
      }[];
    } = JSON.parse(json);
    return data;
  };

  test("shows totals and each span below its parent, in four tabs", async () => {
    const { lines } = traced();
    const usage = { type: "usage", usage: { inputTokens: 12, outputTokens: 3 } } as const;
    const scripts = [calls("ok"), [{ type: "text", text: "Done." } as const, usage]];
    const sessions = runtime({ host: memoryStorage(), engines: { default: playing(scripts, [ok]).engine } });
    await (
      await sessions.start("hi", { id: "s" })
    ).result;
    const { totals, tabs, cards } = dataOf(traceViewer(lines.join("")));
    expect(totals).toEqual(["8 records", "2 model calls", "0 failures", "15 tokens"]);
    expect(tabs).toEqual(["Timeline", "Model calls", "Streams", "Raw"]);
    expect(cards.map(({ title, depth }) => `${"  ".repeat(depth)}${title}`)).toEqual([
      "chat fake:m",
      "  model fake:m",
      "  tool ok",
      "  model fake:m",
    ]);
    expect(cards[3]).toMatchObject({
      tabs: ["Timeline", "Model calls", "Streams", "Raw"],
      summary: expect.stringMatching(/first output after .* 15 tokens · stop/),
    });
  });

  test("shows failures, spans that have not ended, and lines that it cannot read", async () => {
    const { lines } = traced();
    const fails = plain("fails", () => {
      throw new Error("no money");
    });
    await chat(playing([calls("fails"), says("Done.")], [fails]).engine, "hi");
    const text = [...lines.slice(0, -1), "not json\n", '{"everturn":"trace","version":9,"type":"x"}\n', "\n"].join("");
    const { totals, cards } = dataOf(traceViewer(text));
    expect(totals[2]).toBe("1 failures");
    expect(cards.map(({ kind, failed }) => `${kind}${failed ? " failed" : ""}`)).toEqual([
      "chat",
      "model",
      "tool failed",
      "model",
      "other",
      "other",
    ]);
    expect(cards[0]?.summary).toMatch(/not ended/);
    expect(cards[2]?.summary).toMatch(/no money/);
    expect(cards[4]).toMatchObject({ tabs: ["Raw"], raw: "not json" });
    expect(dataOf(traceViewer("")).cards).toEqual([]);
  });

  test("escapes texts, so that no text of a model can become markup", async () => {
    const { lines } = traced({ captureContent: true });
    const attack = "</script><script>alert(1)</script><img src=x onerror=alert(1)>&\u2028";
    await chat(engine({ adapter: fake({ script: [{ type: "text", text: attack }] }) }), attack);
    const html = traceViewer(`${lines.join("")}${attack}\n`, { title: attack });
    expect(html.match(/<\/?script/g)).toHaveLength(4);
    expect(html).not.toMatch(/<img|\u2028(?!<\/title)/);
    expect(dataOf(html).cards.at(-1)?.raw).toContain("onerror");
    expect(html).toContain("Content-Security-Policy");
  });

  test("shows records that are parents of each other, and deep trees", () => {
    const record = (span: string, parent: string | null) =>
      JSON.stringify({
        everturn: "trace",
        version: 1,
        type: "span_started",
        at: 1,
        span,
        parent,
        name: "tool",
        requestId: "r",
        metadata: {},
      });
    expect(dataOf(traceViewer([record("a", "b"), record("b", "a")].join("\n"))).cards).toHaveLength(2);
    const deep = Array.from({ length: 20_000 }, (_, n) => record(`s${n}`, n === 0 ? null : `s${n - 1}`));
    expect(dataOf(traceViewer(deep.join("\n"))).cards).toHaveLength(20_000);
  });
});
