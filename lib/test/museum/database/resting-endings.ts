// How sessions without an open turn are finished: those that wait for an answer, and idle ones.

import type { Ending, Stage } from "./ending.ts";
import type { EngineName } from "./engines.ts";
import type { Session } from "everturn";

import { expect } from "vitest";

import { end, passTime, whileTimePasses } from "./ending.ts";
import { strangeKey } from "./sessions.ts";

/** Advances the clock and lets a worker process due work, until the condition is true. */
async function workAfter({ sessions, clock }: Stage, ms: number, isSo: () => Promise<boolean>): Promise<void> {
  await clock.advance(ms);
  const stop = new AbortController();
  const worked = sessions.work({ signal: stop.signal });
  await passTime(clock, isSo);
  stop.abort();
  await whileTimePasses(clock, worked);
}

async function hasStatus({ sessions }: Stage, id: string, status: Session["status"]): Promise<boolean> {
  const view = await sessions.get(id);
  return view?.openTurn === null && view.session.status === status;
}

/** The latest time after opening at which waits and retained journals are due. */
const dueMs = 600_000;

export const restingEndings = {
  awaiting_approval: {
    finish: ({ sessions }, id) => end(sessions.decide(id, "c0-2", { type: "approve", arguments: { edited: true } })),
    thread: [
      "user Begin.",
      "assistant ",
      expect.stringMatching(/^tool .*No\./s),
      'tool charge {"step":0,"slot":0}',
      'tool [The call was approved with changed arguments: {"edited":true}]\nrefund {"edited":true}',
      "assistant Charged, not wiped, refunded.",
    ],
    performed: { charge: 1, refund: 1, model: 1 },
    tokens: 30,
  },
  awaiting_answer: {
    finish: ({ sessions }, id) => end(sessions.reply(id, "Oslo.", { engine: id })),
    thread: [
      "user Begin.",
      "assistant ",
      "tool <awaiting user response>",
      'tool look {"step":0,"slot":1}',
      "assistant Which city?",
      "user Oslo.",
      "assistant Reply 3.",
    ],
    performed: { model: 1 },
    tokens: 30,
  },
  awaiting_result_answer: {
    finish: ({ sessions }, id) => end(sessions.reply(id, "Oslo.", { engine: id })),
    thread: ["user Begin.", "assistant ", "assistant Which city?", "tool Oslo.", "assistant Oslo it is."],
    performed: { model: 1 },
    tokens: 30,
  },
  awaiting_results: {
    finish: ({ sessions }, id) => end(sessions.submitToolResults(id, [["c0-2", { carried: true }]])),
    thread: [
      "user Begin.",
      "assistant ",
      'tool look {"step":0,"slot":1}',
      'tool {"lifted":true}',
      'tool {"carried":true}',
      "assistant Lifted and carried.",
    ],
    performed: { model: 1 },
    tokens: 30,
  },
  awaiting_token: {
    finish: async ({ sessions, token }) => {
      const completion = await sessions.complete(token, { type: "approve", by: "bob" });
      if (completion.type === "completed") await completion.turn.result;
      expect(await sessions.complete(token, { type: "approve" })).toMatchObject({ type: "already_completed" });
    },
    thread: ["user Begin.", "assistant ", 'tool charge {"step":0,"slot":0}', "assistant Charged by token."],
    performed: { charge: 1, model: 1 },
    tokens: 30,
  },
  used_token: {
    finish: async ({ sessions, token }) => {
      expect(await sessions.complete(token, { type: "result", value: "again" })).toMatchObject({ type: "already_completed" });
    },
    thread: ["user Begin.", "assistant ", "tool up", "assistant Lifted by token."],
    performed: {},
    tokens: 30,
  },
  awaiting_deadline: {
    finish: (stage, id) => workAfter(stage, dueMs, () => hasStatus(stage, id, "completed")),
    thread: [
      "user Begin.",
      "assistant ",
      expect.stringMatching(/^tool .*no answer arrived before the deadline/),
      "assistant It was not lifted in time.",
    ],
    performed: { model: 1 },
    tokens: 30,
  },
  awaiting_failing_deadline: {
    finish: async (stage, id) => {
      await workAfter(stage, dueMs, () => hasStatus(stage, id, "error"));
      expect(await stage.sessions.recover(id)).toMatchObject({ usable: true });
      await end(stage.sessions.submitToolResults(id, [["c0-0", "up"]]));
    },
    thread: ["user Begin.", "assistant ", "tool up", "assistant After the deadline."],
    performed: { model: 1 },
    tokens: 30,
  },
  waiting_child: {
    finish: ({ sessions }, id) => end(sessions.decide(id, "c0-0", { type: "approve" })),
    thread: ["user Begin.", "assistant ", "tool The child charged.", "assistant Delegated."],
    performed: { charge: 1, "child model": 1, model: 1 },
    tokens: 60,
  },
  cancelled: {
    finish: ({ sessions }, id) => end(sessions.reply(id, "Go on.", { engine: id })),
    thread: [
      "user Begin.",
      "assistant ",
      expect.stringMatching(/^tool .*enough$/s),
      "user Go on.",
      "assistant After the cancel.",
    ],
    performed: { model: 1 },
    tokens: 30,
  },
  halted_by_budget: {
    finish: ({ sessions }, id) => end(sessions.reply(id, "Go on.", { engine: id, budgets: { tokens: 1000 } })),
    thread: [
      "user Begin.",
      "assistant ",
      'tool look {"step":0,"slot":0}',
      "assistant ",
      'tool pay {"step":1,"slot":0}',
      "user Go on.",
      "assistant Within the next budget.",
    ],
    performed: { model: 1 },
    tokens: 45,
  },
  failed: {
    finish: async ({ sessions }, id) => {
      await sessions.recover(id);
      await end(sessions.reply(id, "Again.", { engine: id }));
    },
    thread: ["user Begin.", "user Again.", "assistant It works again."],
    performed: { model: 1 },
    tokens: 15,
  },
  completed: {
    finish: async ({ sessions }, id) => {
      const known = await sessions.reply(id, "And again?", { engine: id, key: strangeKey });
      expect((await known.result).text).toBe("Reply 3.");
      const other = sessions.reply(id, "Something else.", { engine: id, key: strangeKey });
      await expect(other).rejects.toMatchObject({ reason: "conflict" });
      await end(sessions.reply(id, "Goodbye.", { engine: id }));
    },
    thread: [
      "user Look at this.",
      "assistant A picture.",
      "user Pay for it.",
      "assistant ",
      'tool pay {"step":1,"slot":0}',
      "assistant Reply 2.",
      "user And again?",
      "assistant Reply 3.",
      "user Goodbye.",
      "assistant Reply 4.",
    ],
    performed: { model: 1 },
    tokens: 60,
  },
  forked: {
    finish: ({ sessions }, id) => end(sessions.decide(id, "c0-0", { type: "approve" })),
    thread: ["user Begin.", "assistant ", 'tool charge {"step":0,"slot":0}', "assistant Charged."],
    performed: { charge: 1, model: 1 },
    tokens: 15,
  },
  single_steps: {
    finish: ({ sessions }, id) => end(sessions.step(id, { engine: id })),
    thread: ["user Begin.", "assistant First.", "assistant ", 'tool pay {"step":1,"slot":0}', "assistant Third."],
    performed: { model: 1 },
    tokens: 45,
  },
  of_a_tenant: {
    finish: ({ sessions }, id) => end(sessions.decide(id, "c0-0", { type: "approve" })),
    thread: ["user Begin.", "assistant ", 'tool charge {"step":0,"slot":0}', "assistant Charged."],
    performed: { charge: 1, model: 1 },
    tokens: 30,
  },
  retained: {
    finish: async (stage, id) => {
      const events = async () => {
        let count = 0;
        for await (const _ of stage.sessions.events(id, { follow: false })) count += 1;
        return count;
      };
      expect(await events()).toBeGreaterThan(0);
      await workAfter(stage, dueMs, async () => (await events()) === 0);
    },
    thread: ["user Begin.", "assistant ", 'tool pay {"step":0,"slot":0}', "assistant Paid."],
    performed: {},
    tokens: 30,
  },
  deleted: {
    finish: async ({ sessions }, id) => {
      expect(await sessions.get(id)).toBeNull();
      await end(sessions.start("Begin again.", { id, engine: id }));
    },
    thread: ["user Begin again.", "assistant Soon deleted."],
    performed: { model: 1 },
    tokens: 15,
  },
  waiting_cell: {
    finish: async ({ sessions }, id) => {
      const call = (await sessions.get(id))?.session.pendingToolCalls[0]?.id ?? "";
      await end(sessions.decide(id, call, { type: "approve" }));
    },
    thread: [
      "user Begin.",
      'assistant I run this.\n```plan\n[["look","charge"],["pay"]]\n```\n',
      "system 3 answers",
      "assistant The cell is done.",
    ],
    performed: { charge: 1, cell: 2, pay: 1, model: 1 },
    tokens: 30,
  },
} satisfies { readonly [N in EngineName]?: Ending };
