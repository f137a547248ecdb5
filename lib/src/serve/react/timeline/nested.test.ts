import { describe, expect, test } from "vitest";

import { acceptedAt, effectOf, timelineOf, turnOf } from "../../../../../apps/studio/test/turn-fixture.ts";
import { barsInOrder, criticalPath, layoutOf } from "./layout.ts";
import { withChildren } from "./nested.ts";

const childId = (call: number, attempt = 1) => `t2/0/tool/${call}/child/${attempt}/0/0`;
const child = (turnId: string, start: number, end: number, children: readonly string[] = []) =>
  timelineOf(
    [
      effectOf(1, "model", 0, [start, start + 10]),
      effectOf(2, "tool", 0, [start + 10, end], {
        name: "search",
        children: children.map((id) => ({ sessionId: "s", turnId: id })),
      }),
    ],
    { turn: turnOf({ turnId, acceptedAt: acceptedAt + start }) },
  );
const call = (ordinal: number, span: readonly [number, number], turnIds: readonly string[]) =>
  effectOf(ordinal, "tool", 0, span, {
    name: "research",
    children: turnIds.map((turnId) => ({ sessionId: "s", turnId })),
  });
const nestedLayout = (
  effects: Parameters<typeof timelineOf>[0],
  children: readonly ReturnType<typeof child>[],
): ReturnType<typeof layoutOf> => {
  const timeline = timelineOf(effects);
  const byId = new Map(children.map((each) => [each.turn.turnId, each]));
  return withChildren(layoutOf(timeline), timeline, byId, timeline.now);
};

describe("lanes of child agents", () => {
  test("are below the lane of their call, on the axis of the turn", () => {
    const { lanes, bars } = nestedLayout(
      [effectOf(1, "model", 0, [0, 100]), call(2, [100, 400], [childId(0)])],
      [child(childId(0), 120, 380)],
    );
    expect(lanes.map(({ label, depth, parent }) => [label, depth, parent])).toEqual([
      ["model", 0, null],
      ["research", 0, null],
      ["model", 1, "research"],
      ["search", 1, "research"],
    ]);
    expect(bars.map((lane) => lane.map(({ start, end, turnId, lane: index }) => [start, end, turnId, index]))).toEqual([
      [[0, 100, null, 0]],
      [[100, 400, null, 1]],
      [[120, 130, childId(0), 2]],
      [[130, 380, childId(0), 3]],
    ]);
  });

  test("are used again by a later child, and not by one at the same time", () => {
    const [first, second] = [child(childId(0), 110, 190), child(childId(1), 210, 290)];
    const later = nestedLayout([call(1, [100, 200], [childId(0)]), call(2, [200, 300], [childId(1)])], [first, second]);
    expect(later.lanes.map(({ depth }) => depth)).toEqual([0, 1, 1]);
    const parallel = nestedLayout(
      [call(1, [100, 300], [childId(0), childId(1)])],
      [first, child(childId(1), 120, 290)],
    );
    expect(parallel.lanes.map(({ depth }) => depth)).toEqual([0, 1, 1, 1, 1]);
  });

  test("are nested for a child of a child, and have unique ids", () => {
    const inner = `${childId(0)}/0/tool/0/child/1/0/0`;
    const { lanes, bars } = nestedLayout(
      [call(1, [100, 400], [childId(0)])],
      [child(childId(0), 110, 390, [inner]), child(inner, 130, 380)],
    );
    expect(lanes.map(({ label, depth }) => `${depth} ${label}`)).toEqual([
      "0 research",
      "1 model",
      "1 search",
      "2 model",
      "2 search",
    ]);
    const ids = bars.flat().map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("grow while the child runs: its calls without a row, otherwise its model", () => {
    const { now } = timelineOf([]);
    const reply = effectOf(1, "model", 0, [0, 100]);
    const open = { effectId: "t2/0/tool/0", toolCallId: "c0", name: "research" };
    const timeline = timelineOf([reply], { open: [{ ...open, children: [{ sessionId: "s", turnId: childId(0) }] }] });
    const performed = { id: "c0", kind: "tool", name: "research", step: 0, firstAt: null, discarded: null } as const;
    const layoutWith = (running: ReturnType<typeof timelineOf>): ReturnType<typeof layoutOf> => {
      const own = layoutOf(timeline, { open: [{ ...performed, startedAt: acceptedAt + 100 }], now });
      return withChildren(own, timeline, new Map([[childId(0), running]]), now);
    };
    const turn = turnOf({ turnId: childId(0), acceptedAt: acceptedAt + 120 });
    const waiting = layoutWith(timelineOf([], { turn, claims: [] }));
    expect(waiting.lanes.map(({ kind, label, depth }) => `${depth} ${kind} ${label}`)).toEqual([
      "0 model model",
      "0 agent research",
      "1 model model",
    ]);
    expect(waiting.bars[2]).toMatchObject([{ start: 120, end: now - acceptedAt, isOpen: true, turnId: childId(0) }]);
    const search = { effectId: `${childId(0)}/0/tool/0`, toolCallId: "c9", name: "search", children: [] };
    const searching = layoutWith(timelineOf([effectOf(1, "model", 0, [120, 150])], { turn, open: [search] }));
    expect(searching.bars.slice(2).map((bars) => bars.map(({ name, start, isOpen }) => [name, start, isOpen]))).toEqual(
      [[["anthropic:claude-opus-5", 120, false]], [["search", 150, true]]],
    );
  });

  test("are not on the critical path, and never reach out of their call", () => {
    const layout = nestedLayout([call(1, [100, 200], [childId(0)])], [child(childId(0), 90, 260)]);
    expect([...criticalPath(layout)]).toEqual(["r1"]);
    for (const bar of barsInOrder(layout)) expect([bar.start >= 100, bar.end <= 200]).toEqual([true, true]);
  });
});
