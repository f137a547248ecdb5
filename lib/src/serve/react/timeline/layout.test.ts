import { describe, expect, test } from "vitest";

import {
  acceptedAt,
  effectOf,
  longTurn,
  supportCase,
  timelineOf,
  turnOf,
} from "../../../../../apps/studio/test/turn-fixture.ts";
import { drawnBars, drawnMarks, panned, revealing, zoomed } from "./draw.ts";
import { barLabels, barTitle, criticalPath, layoutOf, neighbourCommit, stepText, totalsText } from "./layout.ts";
import { positionOf, ticksOf, timeAt } from "./time-scale.ts";

const layout = layoutOf(supportCase);
const barsOf = (label: string) => layout.bars[layout.lanes.findIndex((lane) => lane.label === label)] ?? [];

test("the name of a bar contains what the bar shows, so that speech input finds it", () => {
  const words = (text: string): string => text.replaceAll(/[^\p{L}\p{N}.]+/gu, " ");
  const failed = layoutOf(
    timelineOf([
      effectOf(1, "model", 0, [0, 2100], { state: "failed" }),
      effectOf(2, "tool", 0, [2100, 4100], { name: "search", toolCallId: "c1", state: "failed" }),
    ]),
  );
  for (const bar of [...layout.bars.flat(), ...failed.bars.flat()]) {
    const title = words(barTitle(bar));
    for (const label of barLabels(bar)) if (label !== "✕") expect(title).toContain(words(label));
  }
  expect(failed.bars.flat().map(barTitle)).toEqual([
    "model call, step 1, 2.1 s, failed",
    "tool, search, step 1, failed, 2.0 s",
  ]);
});

describe("lanes and bars", () => {
  test("puts the model first, then tools and the person by their first bar", () => {
    expect(layout.lanes.map(({ label }) => label)).toEqual(["model", "find_order", "track_parcel", "person"]);
  });

  test("gives parallel calls of one tool a lane each, and lets later calls reuse the free one", () => {
    const call = (ordinal: number, span: readonly [number, number]) =>
      effectOf(ordinal, "tool", 0, span, { name: "search", toolCallId: `c${ordinal}` });
    const { lanes, bars } = layoutOf(timelineOf([call(1, [0, 100]), call(2, [10, 50]), call(3, [60, 90])]));
    expect(lanes.map(({ label }) => label)).toEqual(["search", "search"]);
    expect(bars.map((lane) => lane.map(({ ordinal }) => ordinal))).toEqual([[1], [2, 3]]);
  });

  test("draws an attempt that a crash ended beside the recorded one", () => {
    expect(barsOf("model").map(({ kind, state, start, end }) => [kind, state, start, end])).toEqual([
      ["model", "ok", 10, 610],
      ["discarded", "crash", 1460, 2180],
      ["model", "ok", 2620, 4520],
    ]);
  });

  test("begins the recorded attempt after the retries inside its effect", () => {
    const discarded = [
      {
        reason: "retry",
        epoch: 1,
        attempt: 1,
        startedAt: acceptedAt + 10,
        endedAt: acceptedAt + 300,
        failure: null,
        delayMs: null,
        text: "",
        textLength: 0,
      },
    ] as const;
    const { bars } = layoutOf(timelineOf([effectOf(1, "model", 0, [10, 900], { discarded })]));
    expect(bars[0]?.map(({ kind, start, end }) => [kind, start, end])).toEqual([
      ["discarded", 10, 300],
      ["model", 300, 900],
    ]);
  });

  test("shows a call that waits as an open bar until the next turn begins", () => {
    const [waiting] = barsOf("person");
    expect(waiting).toMatchObject({ kind: "wait", isOpen: true, end: 256_530 });
    const answered = layoutOf(supportCase, { nextTurnAt: acceptedAt + 64_530 });
    expect(answered.bars.at(-1)?.[0]).toMatchObject({ isOpen: false, end: 64_530 });
  });

  test("shows the time before the first claim as queued", () => {
    const claims = [{ owner: "a", epoch: 1, since: acceptedAt + 5000, takesOver: false }];
    const { lanes, bars } = layoutOf(timelineOf([effectOf(1, "model", 0, [5010, 6000])], { claims }));
    expect(lanes[0]).toMatchObject({ kind: "queue", label: "queue" });
    expect(bars[0]?.[0]).toMatchObject({ start: 0, end: 5000, isOpen: false });
  });

  test("lets effects that are being performed grow until now", () => {
    const open = {
      id: "t2/0/model",
      kind: "model",
      name: "model",
      step: 0,
      startedAt: acceptedAt + 100,
      firstAt: null,
      discarded: null,
    } as const;
    const { bars } = layoutOf(timelineOf([]), { open: [open], now: acceptedAt + 700 });
    expect(bars[0]?.[0]).toMatchObject({ isOpen: true, start: 100, end: 700, ordinal: 1 });
  });

  test("marks calls that started child agents", () => {
    const children = [{ sessionId: "child", turnId: null }];
    const { lanes } = layoutOf(timelineOf([effectOf(1, "tool", 0, [0, 10], { name: "research", children })]));
    expect(lanes).toEqual([{ kind: "agent", label: "research", depth: 0, parent: null }]);
  });

  test("orders rows of older releases, which have no times", () => {
    const untimed = { startedAt: null, endedAt: null };
    const rows = [
      effectOf(1, "model", 0, [0, 0], untimed),
      effectOf(2, "tool", 0, [0, 0], { ...untimed, name: "add" }),
    ];
    const { isOrderOnly, bars } = layoutOf(timelineOf(rows));
    expect(isOrderOnly).toBe(true);
    expect(bars.flat().map(({ start, end }) => [start, end])).toEqual([
      [0, 100],
      [100, 200],
    ]);
  });

  test("has a layout for a turn without rows", () => {
    expect(layoutOf(timelineOf([], { turn: turnOf({ status: "queued" }) })).scale.width).toBeGreaterThan(0);
  });
});

test("reports a takeover as a crash with both processes and the rows that are replayed", () => {
  expect(layout.crashes).toEqual([
    { time: 2180, resumedAt: 2580, died: "process-14501", continued: "process-14514", replayed: 5 },
  ]);
});

test("shows a crash before the next process has recorded a row", () => {
  const effect = { kind: "model", name: "model", step: 0, firstAt: null } as const;
  const lost = { reason: "crash", endedAt: acceptedAt + 900 } as const;
  const { bars, crashes } = layoutOf(timelineOf([]), {
    open: [
      { ...effect, id: "lost:model", startedAt: acceptedAt + 100, discarded: lost },
      { ...effect, id: "model", startedAt: acceptedAt + 900, discarded: null },
    ],
    now: acceptedAt + 1500,
  });
  expect(bars[0]?.map(({ kind, state, start, end }) => [kind, state, start, end])).toEqual([
    ["discarded", "crash", 100, 900],
    ["model", "open", 900, 1500],
  ]);
  expect(crashes).toMatchObject([{ time: 900, died: "process-14501" }]);
});

test("names the process that died when its successor has claimed the turn and recorded nothing", () => {
  const effect = { kind: "model", name: "model", step: 0, firstAt: null } as const;
  const lost = { reason: "crash", endedAt: acceptedAt + 900 } as const;
  const claims = [
    { owner: "process-a", epoch: 1, since: acceptedAt, takesOver: false },
    { owner: "process-b", epoch: 2, since: acceptedAt + 800, takesOver: true },
  ];
  const { crashes } = layoutOf(timelineOf([], { claims }), {
    open: [{ ...effect, id: "lost:model", startedAt: acceptedAt + 100, discarded: lost }],
    now: acceptedAt + 1500,
  });
  expect(crashes).toMatchObject([{ died: "process-a", continued: "process-b" }]);
});

test("does not count what a crash interrupted, until the takeover, as active", () => {
  const crashed = {
    reason: "crash",
    attempt: 1,
    epoch: 1,
    startedAt: acceptedAt,
    endedAt: acceptedAt + 500,
    delayMs: null,
    failure: null,
    text: "",
    textLength: 0,
  } as const;
  const claims = [
    { owner: "process-a", epoch: 1, since: acceptedAt, takesOver: false },
    { owner: "process-b", epoch: 2, since: acceptedAt + 8500, takesOver: true },
  ];
  const effect = effectOf(1, "model", 0, [0, 9000], { epoch: 2, discarded: [crashed] });
  const { totals } = layoutOf(timelineOf([effect], { claims }));
  expect([totals.activeMs, totals.lostMs]).toEqual([500, 8500]);
  // The takeover is all that the rows of a turn have of the end of a process, here after ten minutes.
  const late = { ...crashed, endedAt: acceptedAt + 600_000 };
  const takeover = [
    ...claims.slice(0, 1),
    { owner: "process-b", epoch: 2, since: acceptedAt + 600_000, takesOver: true },
  ];
  const retried = effectOf(1, "model", 0, [600_000, 601_000], { epoch: 2, discarded: [late] });
  const after = layoutOf(timelineOf([retried], { claims: takeover }));
  expect(totalsText(after.totals)).toEqual(["1.0 s active", "10 m lost", "1 commit"]);
  expect(after.scale.segments.some(({ isBreak }) => isBreak)).toBe(true);
  // A tool that had its result before the crash was active beside the one that had none.
  const parallel = [
    effectOf(1, "tool", 0, [0, 3000], { name: "a" }),
    effectOf(2, "tool", 0, [600_000, 601_000], { name: "b", epoch: 2, discarded: [late] }),
  ];
  expect(layoutOf(timelineOf(parallel, { claims: takeover })).totals).toMatchObject({
    activeMs: 4000,
    lostMs: 597_000,
  });
});

test("leaves out a takeover in an earlier turn", () => {
  const claims = [{ owner: "b", epoch: 2, since: acceptedAt - 5000, takesOver: true }];
  expect(layoutOf(timelineOf([effectOf(1, "model", 0, [0, 10])], { claims })).crashes).toEqual([]);
});

describe("the time axis", () => {
  test("shows a wait of more than 10 seconds as a break", () => {
    expect(layout.scale.segments.map(({ isBreak, from, to }) => [isBreak, from, to])).toEqual([
      [false, 0, 4532],
      [true, 4532, 256_530],
    ]);
    expect(layout.scale.width).toBeLessThan(6000);
  });

  test("does not compress a long tool call", () => {
    const { scale } = layoutOf(timelineOf([effectOf(1, "tool", 0, [0, 60_000], { name: "build" })]));
    expect(scale.segments).toHaveLength(1);
  });

  test("maps times to positions and back", () => {
    for (const time of [0, 300, 4532, 100_000, 256_530]) {
      expect(timeAt(layout.scale, positionOf(layout.scale, time))).toBeCloseTo(time, 3);
    }
  });

  test("has marks at round times with a distance between them", () => {
    const { ticks, stepMs } = ticksOf(layout.scale, 0, 4532, 400);
    expect(stepMs).toBe(500);
    expect(ticks.map(({ time }) => time)).toEqual([0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500]);
  });
});

test("the critical path has the last of the parallel tools and the discarded attempt", () => {
  expect([...criticalPath(layout)].toReversed()).toEqual(["r2", "r4", "r6.0", "r6", "r7"]);
});

test("totals count activity once, waits apart, and first content from acceptance", () => {
  expect(layout.totals).toMatchObject({ steps: 2, commits: 7, firstTokenMs: 190, discarded: 1, cost: 0.0093 });
  expect(totalsText(layout.totals)).toEqual(["3.3 s active", "1.1 s lost", "4 m 12 s waiting", "7 commits"]);
  expect(layout.steps.map(stepText)).toEqual(["1.7 k tok · $0.0051", "1.9 k tok · $0.0042"]);
});

test("labels name the kind, the state and the duration", () => {
  const [first, discarded] = barsOf("model");
  expect(first === undefined ? [] : barLabels(first)).toEqual(["step 1 · 600 ms", "600 ms", "1"]);
  expect(discarded === undefined ? "" : barTitle(discarded)).toBe(
    "attempt, step 2, discarded, 720 ms, ended by a crash",
  );
});

test("steps from commit to commit", () => {
  expect(neighbourCommit(layout, 610, 1)).toBe(1220);
  expect(neighbourCommit(layout, 610, -1)).toBe(6);
  expect(neighbourCommit(layout, 6, -1)).toBe(0);
  expect(neighbourCommit(layout, null, -1)).toBe(layout.commits.at(-1)?.time);
  expect(neighbourCommit(layout, layout.end, 1)).toBeNull();
});

describe("drawing", () => {
  const long = layoutOf(longTurn(1000));
  const window = { from: 0, to: long.scale.width, width: 800 };

  test("joins bars that are too narrow, and draws no more than the width has room for", () => {
    const drawn = drawnBars(long.bars[0] ?? [], long.scale, window);
    expect(drawn.length).toBeLessThan(400);
    expect(drawn.reduce((sum, { bars }) => sum + bars.length, 0)).toBe(1000);
  });

  test("draws only the bars in the window", () => {
    const drawn = drawnBars(long.bars[0] ?? [], long.scale, { from: 4000, to: 7900, width: 780 });
    expect(drawn.map(({ left, width, bars }) => [Math.round(left), Math.round(width), bars[0]?.step])).toEqual([
      [0, 160, 2],
      [400, 160, 3],
    ]);
  });

  test("leaves out commits that are nearer than the distance", () => {
    expect(drawnMarks(long.commits, long.scale, window, 3).length).toBeLessThan(268);
  });

  test("zooms around a position, pans, and stays inside of the axis", () => {
    const closer = zoomed(window, long.scale, 2, 0);
    expect([closer.from, closer.to]).toEqual([0, long.scale.width / 2]);
    expect(panned(closer, long.scale, -100).from).toBe(0);
    const end = panned(closer, long.scale, 100_000);
    expect(end.to).toBeCloseTo(long.scale.width);
    expect(revealing(closer, long.scale, 1_990_000, 1_990_800).to).toBeGreaterThan(
      positionOf(long.scale, 1_990_800) - 1,
    );
    expect(zoomed(closer, long.scale, 0.1, 0).to).toBe(long.scale.width);
  });
});

test("an effect without a duration at the end of the turn is inside of the plot", () => {
  const { bars, scale } = layoutOf(timelineOf([effectOf(1, "model", 0, [50, 50])]));
  const [drawn] = drawnBars(bars[0] ?? [], scale, { from: 0, to: scale.width, width: 700 });
  expect(drawn?.width).toBeGreaterThan(0);
  expect((drawn?.left ?? 0) + (drawn?.width ?? 0)).toBeLessThanOrEqual(700);
});

test("draws a compaction in a lane of its own, while it runs and when it is recorded", () => {
  const running = { id: "compaction", kind: "compaction", name: "compaction", step: 0 } as const;
  const open = [{ ...running, startedAt: acceptedAt + 40, firstAt: null, discarded: null }];
  const live = layoutOf(timelineOf([effectOf(1, "checkpoint", 0, [0, 5])]), { open });
  expect(live.lanes.map(({ label }) => label)).toEqual(["compaction"]);
  expect(live.bars.flat()).toMatchObject([{ kind: "compaction", isOpen: true, ordinal: 2 }]);
  const summary = effectOf(1, "compaction", 0, [0, 400], { name: "fake:m" });
  const { lanes, bars, commits } = layoutOf(timelineOf([summary, effectOf(2, "model", 0, [400, 900])]));
  expect(lanes.map(({ label }) => label)).toEqual(["model", "compaction"]);
  expect(bars[1]).toMatchObject([{ kind: "compaction", ordinal: 1, start: 0, end: 400, state: "ok" }]);
  expect(commits.map(({ isBookkeeping }) => isBookkeeping)).toEqual([false, false]);
});
