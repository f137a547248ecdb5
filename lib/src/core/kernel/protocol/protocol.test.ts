// A protocol defined by a user, with records, an end condition and driver state: the guarantees of the machine for
// every protocol.

import type { Transition } from "../machine/turn.ts";
import type { DriverAction, DriverContextView, Notice, ProtocolDriver, TurnMachineConfig } from "everturn/advanced";

import { messageText, system, user } from "everturn";
import {
  request,
  chatProtocol,
  checkpointDelivered,
  codeFinished,
  modelReplied,
  projectRequest,
  protocolConfig,
  toolReturned,
  TurnMachine,
  turnInput,
  toolCall,
  toolSpec,
} from "everturn/advanced";
import { describe, expect, expectTypeOf, test } from "vitest";

import { says } from "../../../../test/turns.ts";
import { pendingEffects } from "../machine/pending-effects.ts";
import { advance, startTurn } from "../machine/reducer.ts";
import { codeCalls } from "../machine/respond.ts";
import { storableTurn } from "../machine/turn.ts";
import { ending } from "./ending.ts";

type Guessing = {
  readonly event: { readonly guess: string };
  readonly termination: { readonly word: string };
  readonly driverState: { readonly tries: number };
};

const chat = chatProtocol<Guessing>();
const guessing: ProtocolDriver<Guessing> = {
  ...chat,
  prepareProtocolIteration: () => [{ type: "start_llm", useTools: false, overrides: {}, driverState: { tries: 0 } }],
  handleLlmSuccess: (context, reply, state) => {
    const guess = reply.outputText ?? "";
    if (guess === context.termination.word) return chat.handleLlmSuccess(context, reply, state);
    return [
      { type: "append_events", messages: [], events: [{ guess }] },
      { type: "append_events", messages: [user(`not ${guess}`)] },
      { type: "advance_protocol_iteration", free: false },
      { type: "start_llm", useTools: false, overrides: {}, driverState: { tries: (state?.tries ?? 0) + 1 } },
    ];
  },
};
const settings = protocolConfig({ protocolDriver: guessing, termination: { word: "rain" }, sessionId: "s1" });
const begin = turnInput("t", { messages: [user("guess")] });

describe("[lash 10] [lash 48] a protocol defined by a user", () => {
  test("has its own types, inferred from the driver", () => {
    expectTypeOf(settings).toEqualTypeOf<TurnMachineConfig<Guessing>>();
    expectTypeOf(startTurn(settings, begin)).toEqualTypeOf<Transition<Guessing>>();
    expectTypeOf(TurnMachine.start(settings, begin)).toEqualTypeOf<TurnMachine<Guessing>>();
  });

  test("receives its state with the reply, and its records are reported once", () => {
    let step = startTurn(settings, begin);
    const told: (readonly Guessing["event"][])[] = [];
    for (const guess of ["snow", "hail", "rain"]) {
      const id = pendingEffects(step.turn)[0]?.id ?? "";
      const stored = JSON.parse(JSON.stringify(storableTurn(step.turn)));
      step = advance(settings, stored, modelReplied(id, says(guess)));
      told.push(...step.notices.flatMap((notice) => (notice.type === "progress" ? [notice.events] : [])));
    }
    expect(told).toEqual([[{ guess: "snow" }], [{ guess: "hail" }], []]);
    expect(pendingEffects(step.turn)).toMatchObject([{ checkpoint: "before_completion" }]);
    expect(step.turn.events.entries).toEqual([{ guess: "snow" }, { guess: "hail" }]);
  });

  test("may have a projector of its own", () => {
    const shouting = {
      ...settings,
      projector: { project: () => request([user("GUESS")], { model: "loud" }) },
    };
    expect(projectRequest(shouting, startTurn(shouting, begin).turn)).toMatchObject({ model: "loud" });
  });
});

test("[lash 11] messages of one list of actions are reported once, before the effect that depends on them", () => {
  const { turn } = startTurn(settings, begin);
  const { notices } = advance(settings, turn, modelReplied("t/0/model", says("snow")));
  const [progress, ...more] = notices;
  expect(more).toEqual([]);
  expect(progress).toMatchObject({ type: "progress", step: 1, events: [{ guess: "snow" }] });
  expect(messagesOf(progress)).toEqual(["not snow"]);
});

function messagesOf(notice: Notice<Guessing> | undefined): readonly string[] {
  return notice?.type === "progress" ? notice.messages.map(messageText) : [];
}

test("a protocol sees the turn before its own actions are applied", () => {
  const seen: unknown[] = [];
  const watching: ProtocolDriver<Guessing> = {
    ...guessing,
    prepareProtocolIteration: (context) => {
      seen.push(look(context));
      return guessing.prepareProtocolIteration(context);
    },
  };
  const origin = { type: "plugin", pluginId: "p", transient: false } as const;
  const cause = { id: "w", eventType: "wake", origin, text: "woke" };
  startTurn(
    { ...settings, protocolDriver: watching, maxTurns: 3, autonomous: true },
    { ...begin, runOffset: 4, turnCauses: [cause] },
  );
  expect(seen).toEqual([
    {
      turnId: "t",
      protocolIteration: 4,
      protocolRunOffset: 4,
      maxTurns: 3,
      termination: { word: "rain" },
      autonomous: true,
      shouldForceExitAfterGraceTurn: false,
      turnLimitFinalToSchedule: null,
      isLastIteration: false,
      messages: ["guess", "woke"],
      events: [],
      turnCauses: [cause],
      request: "none",
    },
  ]);
});

function look(context: DriverContextView<Guessing>) {
  const { turnId, protocolIteration, protocolRunOffset, maxTurns, termination, autonomous } = context;
  const { shouldForceExitAfterGraceTurn, turnLimitFinalToSchedule, isLastIteration, turnCauses } = context;
  return {
    turnId,
    protocolIteration,
    protocolRunOffset,
    maxTurns,
    termination,
    autonomous,
    shouldForceExitAfterGraceTurn,
    turnLimitFinalToSchedule,
    isLastIteration,
    messages: context.messages().map(messageText),
    events: context.events(),
    turnCauses,
    request: context.projectLlmRequest(false).toolChoice,
  };
}

describe("schedule_turn_limit_final", () => {
  const message = system("This is your last try.", { id: "last" });
  const limited: ProtocolDriver<Guessing> = {
    ...guessing,
    handleLlmSuccess: (context, reply, state) =>
      guessing
        .handleLlmSuccess(context, reply, state)
        .flatMap((action): readonly DriverAction<Guessing>[] =>
          action.type === "start_llm" ? [{ type: "schedule_turn_limit_final", message }, action] : [action],
        ),
  };
  const few = { ...settings, protocolDriver: limited, maxTurns: 2 };

  test("appends its message when the limit is reached, and once", () => {
    let { turn } = startTurn(few, begin);
    for (const [step, guess] of ["snow", "hail", "fog"].entries()) {
      expect(turn.graceTurn).toBe(step > 1);
      turn = advance(few, turn, modelReplied(`t/${step}/model`, says(guess))).turn;
    }
    const said = turn.history.entries.map(messageText);
    expect(said).toEqual(["guess", "not snow", "not hail", "This is your last try.", "not fog"]);
  });
});

test("[lash 46] handleExecResult receives the driver state of the cell", () => {
  const seen: unknown[] = [];
  const running: ProtocolDriver<Guessing> = {
    ...guessing,
    prepareProtocolIteration: () => [
      { type: "start_exec", language: "javascript", code: "1", driverState: { tries: 7 } },
    ],
    handleExecResult: (_, result, calls, state) => {
      seen.push([result.type, calls, state]);
      return [{ type: "start_checkpoint", checkpoint: "after_work", onEmpty: { type: "prepare_iteration" } }];
    },
  };
  const own = { ...settings, protocolDriver: running };
  const { turn } = startTurn(own, begin);
  const after = advance(own, turn, codeFinished("t/0/code/0")).turn;
  expect(seen).toEqual([["code_finished", [], { tries: 7 }]]);
  expect(advance(own, after, checkpointDelivered("t/0/after_work")).turn.phase).toMatchObject({
    ending: { outcome: { failure: { reason: "invalid_actions" } } },
  });
});

test("[lash 46] any protocol can run a cell whose calls are answered, and gets its own state back", () => {
  const results: unknown[] = [];
  const running: ProtocolDriver<Guessing> = {
    ...guessing,
    prepareProtocolIteration: () => [
      { type: "start_exec", language: "python", code: "weather()", driverState: { tries: 7 } },
    ],
    handleExecResult: (_, ...result) => {
      results.push(result);
      return [{ type: "finish", ending: ending({ type: "empty" }) }];
    },
  };
  const toolSpecs = [toolSpec({ name: "weather", description: "The weather.", schema: {} })];
  const own = { ...settings, protocolDriver: running, toolSpecs };
  const call = toolCall({ id: "c", name: "weather", arguments: {} });
  const { turn } = startTurn(own, begin);
  expect(pendingEffects(turn)).toMatchObject([{ type: "run_code", language: "python", code: "weather()", answers: 0 }]);
  const calling = advance(own, turn, codeCalls("t/0/code/0", [call], { name: "mine", version: "1" })).turn;
  expect(pendingEffects(calling)).toMatchObject([{ type: "call_tool", call }]);
  const outcome = { type: "success", value: "sunny", control: null } as const;
  const answered = advance(own, calling, toolReturned("t/0/cell/0", outcome)).turn;
  const ended = advance(own, answered, codeFinished("t/0/code/1")).turn;
  expect(results).toMatchObject([[{ type: "code_finished" }, [{ call, answer: outcome }], { tries: 7 }]]);
  expect(ended.phase).toMatchObject({ type: "ended", ending: { outcome: { type: "empty" } } });
});

describe("[lash 39] [lash 41] a checkpoint delivery", () => {
  const note = (text: string, transient: boolean) =>
    system(text, { origin: { type: "plugin", pluginId: "p", transient } });

  test("is added in the order messages, transient messages, causes; user messages are unchanged", () => {
    const plain = protocolConfig({ protocolDriver: chatProtocol(), termination: null });
    const { turn } = startTurn(plain, begin);
    const atCheckpoint = advance(plain, turn, modelReplied("t/0/model", says("A"))).turn;
    const origin = { type: "plugin", pluginId: "mail", transient: false } as const;
    const { turn: after } = advance(
      plain,
      atCheckpoint,
      checkpointDelivered("t/0/before_completion", {
        messages: [note("kept", false), note("passing", true), user("more", { id: "u7", metadata: { from: "Ada" } })],
        transientMessages: [note("also passing", true)],
        turnCauses: [{ id: "w", eventType: "mail", origin, text: "mail" }],
      }),
    );
    expect(after.history.entries.slice(2)).toEqual([
      { ...note("kept", false), id: "t/0/before_completion/0" },
      user("more", { id: "u7", metadata: { from: "Ada" } }),
      expect.objectContaining({ role: "event", id: "w" }),
    ]);
    expect(after.transient.entries.map(({ message }) => messageText(message))).toEqual(["passing", "also passing"]);
    expect(projectRequest(plain, after).messages.map(messageText).slice(2)).toEqual([
      "Runtime note:\nkept",
      "Runtime note:\npassing",
      "more",
      "Runtime note:\nalso passing",
      expect.stringContaining("=== TURN EVENTS ==="),
    ]);
  });
});

test("[lash 47] a request has the instructions first, tools only if allowed, and its scope", () => {
  const plain = protocolConfig({ protocolDriver: chatProtocol(), termination: null, sessionId: "s1" });
  const { turn } = startTurn({ ...plain, systemPrompt: " \n " }, begin);
  expect(projectRequest(plain, turn)).toMatchObject({ messages: [{ role: "user" }], tools: [], toolChoice: "auto" });
  const without = projectRequest(settings, startTurn(settings, begin).turn);
  expect(without).toMatchObject({ tools: [], toolChoice: "none", scope: { sessionId: "s1", requestId: "t/0/model" } });
});
