// Every phase of a turn against every response there is: the one kind it awaits is taken, every other kind is reported, and whatever
// names another effect is stale. One test a pair.

import type { Effect, EffectResponse, Turn } from "everturn/kernel";

import {
  advance,
  codeCalls,
  codeFailed,
  codeFinished,
  codeProtocol,
  modelFailed,
  pendingEffects,
  startTurn,
  toolWaits,
} from "everturn/kernel";
import { adapterFailure } from "everturn/model";
import { describe, expect, test } from "vitest";

import { calls, config, delivered, input, replied, result, says, transcript } from "../../../test/turns.ts";

const coding = config({}, { protocolDriver: codeProtocol() });
const cell = says("```javascript\n1\n```");
const turnOf = (...story: Parameters<typeof transcript>) => transcript(...story).turn;

const phases: { readonly [P in Turn["phase"]["type"]]: { readonly settings: typeof coding; readonly turn: Turn } } = {
  awaiting_environment: { settings: config(), turn: startTurn(config({}, { syncEnvironment: true }), input()).turn },
  awaiting_model: { settings: config(), turn: turnOf(config(), input(), []) },
  awaiting_tools: {
    settings: config(),
    turn: turnOf(config(), input(), [replied("t/0/model", calls("weather", "clock"))]),
  },
  awaiting_code: { settings: coding, turn: turnOf(coding, input(), [replied("t/0/model", cell)]) },
  awaiting_checkpoint: { settings: config(), turn: turnOf(config(), input(), [replied("t/0/model", says("Hi."))]) },
  ended: {
    settings: config(),
    turn: turnOf(config(), input(), [replied("t/0/model", says("Hi.")), delivered("t/0/before_completion")]),
  },
};

const responses: {
  readonly [R in EffectResponse["type"]]: { readonly to: Effect["type"]; readonly of: (id: string) => EffectResponse };
} = {
  environment_synced: { to: "sync_environment", of: (id) => ({ type: "environment_synced", id, environment: null }) },
  environment_failed: { to: "sync_environment", of: (id) => ({ type: "environment_failed", id, message: "nope" }) },
  model_replied: { to: "call_model", of: (id) => replied(id, says("Hi.")) },
  model_failed: {
    to: "call_model",
    of: (id) => modelFailed(id, adapterFailure("timeout")),
  },
  tool_returned: { to: "call_tool", of: (id) => result(id, "sunny") },
  tool_waits: { to: "call_tool", of: (id) => toolWaits(id, "approval") },
  code_finished: {
    to: "run_code",
    of: (id) => codeFinished(id),
  },
  code_calls: { to: "run_code", of: (id) => codeCalls(id, calls("weather").toolCalls, { name: "test", version: "1" }) },
  code_failed: { to: "run_code", of: (id) => codeFailed(id, "boom") },
  checkpoint_delivered: { to: "checkpoint", of: (id) => delivered(id) },
};

describe.each(Object.entries(phases))("[lash 4] %s", (phase, { settings, turn }) => {
  test("is the phase it is called", () => {
    expect(turn.phase.type).toBe(phase);
  });

  test.each(Object.entries(responses))("on %s", (_, { to, of }) => {
    const [awaited] = pendingEffects(turn);
    const stray = advance(settings, turn, of("t/9/nobody"));
    expect([stray.turn === turn, stray.status]).toEqual([true, "stale"]);
    const given = advance(settings, turn, of(awaited?.id ?? "t/0/model"));
    if (awaited === undefined) expect([given.turn === turn, given.status]).toEqual([true, "stale"]);
    else if (awaited.type !== to) expect([given.turn === turn, given.status]).toEqual([true, "wrong_kind"]);
    else expect([given.turn === turn, given.status]).toEqual([false, "accepted"]);
  });
});
