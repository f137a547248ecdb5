// How sessions with an open turn are finished: an accepted turn, a turn of a killed process, or a parked turn.

import type { Ending, Stage } from "./ending.ts";
import type { EngineName } from "./engines.ts";

import { expect } from "vitest";

import { end, whileTimePasses } from "./ending.ts";

const resume = ({ resume }: Stage) => resume();

/** The result of a call that had started and whose replay policy is `never`. */
const unknownOutcome = (tool: string) => expect.stringMatching(new RegExp(`^tool .*error.*${tool}`));

export const openEndings = {
  accepted: {
    finish: resume,
    thread: ["user Begin.", "assistant Hello there."],
    performed: { model: 1 },
    tokens: 15,
  },
  cut_in_reply: {
    finish: resume,
    thread: ["user Begin.", "assistant Hello there, this is a reply in pieces."],
    performed: { model: 1 },
    tokens: 15,
  },
  cut_after_reply: {
    finish: resume,
    thread: [
      "user Begin.",
      "assistant ",
      'tool look {"step":0,"slot":0}',
      unknownOutcome("pay"),
      "assistant Both are answered.",
    ],
    performed: { look: 1, model: 1 },
    tokens: 30,
  },
  cut_in_parallel_tools: {
    finish: async ({ sessions, resume }, id) => {
      await resume();
      await end(sessions.submitToolResults(id, [["c0-3", "it was sent"]]));
    },
    thread: [
      "user Begin.",
      "assistant ",
      'tool note {"step":0,"slot":0}',
      'tool look {"step":0,"slot":1}',
      unknownOutcome("pay"),
      "tool it was sent",
      "assistant All four are answered.",
    ],
    performed: { look: 1, model: 1 },
    tokens: 30,
  },
  cut_after_hook: {
    finish: resume,
    thread: ["user Begin.", "assistant ", 'tool pay {"step":0,"slot":0,"checked":true}', "assistant Paid."],
    performed: { pay: 1, model: 1 },
    tokens: 30,
  },
  cut_in_retry: {
    finish: ({ resume, clock }) => whileTimePasses(clock, resume()),
    thread: ["user Begin.", "assistant At the third attempt."],
    performed: { model: 2 },
    tokens: 15,
  },
  cut_in_tool_retry: {
    finish: ({ resume, clock }) => whileTimePasses(clock, resume()),
    thread: ["user Begin.", "assistant ", 'tool {"error":"busy"}', "assistant It failed three times."],
    performed: { flaky: 2, model: 1 },
    tokens: 30,
  },
  cut_after_fallback: {
    finish: resume,
    thread: ["user Begin.", "assistant ", 'tool look {"step":0,"slot":0}', "assistant From the second model."],
    performed: { look: 1, model: 1 },
    tokens: 30,
  },
  cut_before_finalize: {
    finish: resume,
    thread: [
      "user Begin.",
      "assistant ",
      'tool look {"step":0,"slot":0}',
      "assistant It is Oslo.",
      "event Now provide your final structured response.",
      'assistant {"city":"Oslo"}',
    ],
    performed: { model: 1 },
    tokens: 45,
  },
  cut_in_prepared_step: {
    finish: resume,
    thread: [
      "user Begin.",
      "assistant ",
      'tool look {"step":0,"slot":0}',
      "assistant ",
      unknownOutcome("pay"),
      "assistant Both are answered.",
    ],
    performed: { model: 1 },
    tokens: 45,
  },
  handed_over: {
    finish: resume,
    thread: ["user Begin.", "assistant ", 'tool pay {"step":0,"slot":0}', "assistant Paid."],
    performed: { model: 2, pay: 1 },
    tokens: 30,
  },
  approved: {
    finish: resume,
    thread: ["user Begin.", "assistant ", 'tool [The call was approved with changed arguments: {"amount":5}]\ncharge {"amount":5}', "assistant Charged."],
    performed: { charge: 1, model: 1 },
    tokens: 30,
  },
  cut_in_child: {
    finish: resume,
    thread: ["user Begin.", "assistant ", "tool The child paid.", "assistant Delegated."],
    performed: { "child model": 1, model: 1 },
    tokens: 60,
  },
  cut_in_unsafe_child: {
    finish: resume,
    thread: ["user Begin.", "assistant ", unknownOutcome("delegate"), "assistant The outcome is unknown."],
    performed: { model: 1 },
    tokens: 45,
  },
  steered: {
    finish: resume,
    thread: [
      "user Begin.",
      "assistant ",
      'tool look {"step":0,"slot":0}',
      "user And hurry.",
      "event It rang.",
      "assistant Noted.",
    ],
    performed: { look: 1, model: 1 },
    tokens: 30,
  },
  cut_after_claim: {
    finish: resume,
    thread: [
      "user Begin.",
      "assistant ",
      'tool look {"step":0,"slot":0}',
      "user Take this once.",
      "assistant Noted once.",
    ],
    performed: { model: 1 },
    tokens: 30,
  },
  next_turn: {
    finish: resume,
    thread: [
      "user Begin.",
      "assistant First.",
      "assistant ",
      'tool look {"step":1,"slot":0}',
      "user One more thing.",
      "assistant From the input.",
    ],
    performed: { model: 1 },
    tokens: 45,
  },
  unsettled_cancel: {
    finish: async ({ resume }) => {
      expect((await resume()).outcome.type).toBe("cancelled");
    },
    status: "idle",
    thread: ["user Begin.", "assistant ", expect.stringMatching(/^tool .*enough$/s)],
    performed: {},
    tokens: 15,
  },
  parked_to_restart: {
    finish: async ({ sessions }, id) => {
      const turn = (await sessions.get(id))?.openTurn?.turnId ?? "";
      const recovered = await sessions.recover(id, { from: "step" });
      expect(recovered).toEqual({ pickedUp: 1, usable: true, mayRunTwice: [`${turn}/1/model`] });
      await sessions.attach(id, turn).result;
    },
    thread: [
      "user Begin.",
      "assistant ",
      'tool pay {"step":0,"slot":0}',
      "assistant ",
      'tool look {"step":1,"slot":0}',
      "assistant Restarted.",
    ],
    performed: { model: 2, look: 1 },
    tokens: 60,
  },
  parked_to_close: {
    finish: async ({ sessions }, id) => {
      expect(await sessions.recover(id)).toMatchObject({ usable: true });
      await end(sessions.reply(id, "Go on.", { engine: id }));
    },
    thread: [
      "user Begin.",
      "assistant ",
      'tool pay {"step":0,"slot":0}',
      "assistant ",
      "tool [Tool execution cancelled]\nthe turn failed",
      "user Go on.",
      "assistant After the end.",
    ],
    performed: { model: 1 },
    tokens: 45,
  },
  cut_after_restart: {
    finish: resume,
    thread: [
      "user Begin.",
      "assistant ",
      'tool pay {"step":0,"slot":0}',
      "assistant ",
      'tool look {"step":1,"slot":0}',
      "assistant Restarted twice.",
    ],
    performed: { look: 1, model: 1 },
    tokens: 60,
  },
  cut_in_cell: {
    finish: async ({ sessions, resume }, id) => {
      await resume();
      const call = (await sessions.get(id))?.session.pendingToolCalls[0]?.id ?? "";
      await end(sessions.submitToolResults(id, [[call, "it was sent"]]));
    },
    thread: [
      "user Begin.",
      'assistant I run this.\n```plan\n[["look","pay"],["send"]]\n```\n',
      "system 3 answers",
      "assistant The cell is done.",
    ],
    performed: { cell: 1, model: 1 },
    tokens: 30,
  },
} satisfies { readonly [N in EngineName]?: Ending };
