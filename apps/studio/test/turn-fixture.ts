// Timelines of turns for tests: a support case with parallel tools, a crash and an approval, and a long turn.

import type { Usage } from "everturn";
import type { TimelineEffect, TurnSummaryView } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";

/** When the turns of this file were accepted. */
export const acceptedAt = 1_790_000_000_000;

/** A usage with input, cached and output tokens and a cost in US dollars. */
export function usageFixture(
  inputTokens: number,
  cachedInputTokens: number,
  outputTokens: number,
  totalCost: number,
): Usage {
  return {
    inputTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteInputTokens: null,
    reasoningTokens: null,
    totalTokens: null,
    inputCost: null,
    outputCost: null,
    totalCost,
    toolUsage: {},
    extra: {},
  };
}

/** A row of the journal. `span` is its start and end in milliseconds after the turn was accepted. */
export function effectOf(
  ordinal: number,
  kind: TimelineEffect["kind"],
  step: number,
  span: readonly [start: number, end: number],
  fields: Partial<TimelineEffect> = {},
): TimelineEffect {
  return {
    ordinal,
    effectId: `t2/${step}/${kind}/${ordinal}`,
    kind,
    step,
    name: kind === "model" ? "anthropic:claude-opus-5" : null,
    toolCallId: null,
    state: "ok",
    startedAt: acceptedAt + span[0],
    firstAt: null,
    endedAt: acceptedAt + span[1],
    owner: "process-14501",
    epoch: 1,
    attempt: 1,
    usage: null,
    text: "",
    failure: null,
    discarded: [],
    frame: null,
    children: [],
    ...fields,
  };
}

export function turnOf(fields: Partial<TurnSummaryView> = {}): TurnSummaryView {
  return {
    turnId: "t2",
    verb: "chat",
    engine: "support",
    acceptedAt,
    base: 2,
    status: "running",
    step: 0,
    end: null,
    failure: null,
    limitWait: null,
    discarded: 0,
    ...fields,
  };
}

export function timelineOf(effects: readonly TimelineEffect[], fields: Partial<TurnTimeline> = {}): TurnTimeline {
  return {
    turn: turnOf(),
    now: acceptedAt + 10_000,
    claims: [{ owner: "process-14501", epoch: 1, since: acceptedAt + 2, takesOver: false }],
    effects,
    open: [],
    next: null,
    isJournalRemoved: false,
    ...fields,
  };
}

/** A model call, two parallel tools, a second call that a crash interrupts, and a call that waits for an approval. */
export const supportCase: TurnTimeline = timelineOf(
  [
    effectOf(1, "environment", 0, [5, 6]),
    effectOf(2, "model", 0, [10, 610], {
      firstAt: acceptedAt + 190,
      usage: usageFixture(1620, 1400, 64, 0.0051),
      text: "I am sorry. Let me look at the order and at the parcel.",
    }),
    effectOf(3, "tool", 0, [620, 1220], {
      name: "find_order",
      toolCallId: "c1",
      text: '{"order":1042,"paid":"189.00 EUR"}',
    }),
    effectOf(4, "tool", 0, [620, 1450], {
      name: "track_parcel",
      toolCallId: "c2",
      text: "delivered Monday, box crushed",
    }),
    effectOf(5, "checkpoint", 0, [1455, 1458]),
    effectOf(6, "model", 1, [2620, 4520], {
      firstAt: acceptedAt + 3032,
      owner: "process-14514",
      epoch: 2,
      attempt: 2,
      usage: usageFixture(1842, 1676, 58, 0.0042),
      text: "Thank you. I am asking for the refund to be approved.",
      discarded: [
        {
          reason: "crash",
          epoch: 1,
          attempt: 1,
          startedAt: acceptedAt + 1460,
          endedAt: acceptedAt + 2180,
          failure: null,
          delayMs: null,
          text: "Thank you. I am ask",
          textLength: 19,
        },
      ],
    }),
    effectOf(7, "tool", 1, [4530, 4532], {
      name: "refund",
      toolCallId: "c3",
      owner: "process-14514",
      epoch: 2,
      state: "waits",
      text: "approval",
    }),
  ],
  {
    turn: turnOf({
      status: "ended",
      step: 2,
      end: {
        haltedReason: "approval",
        outcome: { type: "approval" },
        steps: 2,
        usage: usageFixture(3462, 3076, 122, 0.0093),
      },
    }),
    now: acceptedAt + 4530 + 252_000,
    claims: [
      { owner: "process-14501", epoch: 1, since: acceptedAt + 2, takesOver: false },
      { owner: "process-14514", epoch: 2, since: acceptedAt + 2580, takesOver: true },
    ],
  },
);

/** A turn with many steps: each is a model call, two parallel tools and a checkpoint. */
export function longTurn(steps: number): TurnTimeline {
  const effects: TimelineEffect[] = [];
  for (let step = 0; step < steps; step += 1) {
    const at = step * 2000;
    const ordinal = step * 4;
    const tool = (id: number, name: string, end: number): TimelineEffect =>
      effectOf(ordinal + id, "tool", step, [at + 810, at + end], { name, toolCallId: `c${step}.${id}`, text: "done" });
    effects.push(
      effectOf(ordinal + 1, "model", step, [at, at + 800], {
        firstAt: acceptedAt + at + 200,
        usage: usageFixture(1000 + step, 900, 50, 0.002),
        text: `Reply of step ${step + 1}.`,
      }),
      tool(2, "read_file", 1500),
      tool(3, "search_code", 1900),
      effectOf(ordinal + 4, "checkpoint", step, [at + 1905, at + 1910]),
    );
  }
  return timelineOf(effects, { now: acceptedAt + steps * 2000 });
}
