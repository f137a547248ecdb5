// One transition of a turn being worked out: what a response changes, what the protocol wants, and what the host is told of it. The
// rules are those of the reducer, whose hands this is.

import type { Environment, Failure, Json, Message, ModelReply, TurnOutcome, Usage } from "../model/index.ts";
import type {
  CheckpointDelivered,
  CheckpointDelivery,
  CodeFailed,
  CodeFinished,
  Effect,
  EffectResponse,
  LlmCallError,
} from "./effect.ts";
import type { DriverAction } from "./protocol.ts";
import type {
  Cell,
  CompletedToolCall,
  EndedStep,
  Ending,
  Notice,
  StepEnd,
  Transition,
  Turn,
  TurnInput,
  TurnMachineConfig,
} from "./turn.ts";

import {
  adapterFailure,
  addUsage,
  assistant,
  haltedReasonOf,
  isTransient,
  modelReply,
  replyText,
  runtimeFailure,
  system,
  textPart,
  user,
} from "../model/index.ts";
import { canonicalJson } from "./canonical-json.ts";
import { ending, outcomeOfText } from "./ending.ts";
import { appendHistory, digestOf } from "./history.ts";
import { newestCalls, openCalls } from "./open-calls.ts";
import { DriverContextView, turnLimitDue } from "./protocol.ts";
import { replyMessage, storableReply } from "./reply-message.ts";
import { isContextOverflow } from "./reply-text.ts";
import { answerOf, cancelledAnswer, unrunAnswer } from "./tool-answer.ts";
import { toEventMessage } from "./turn-cause.ts";
import { isLastCheckpoint, pendingEffects } from "./turn.ts";

/** One transition being worked out. Lives no longer than the call that made it. */
export class Work {
  readonly #config: TurnMachineConfig;
  readonly #notices: Notice[] = [];
  #turn: Turn;
  #stepEnded: EndedStep | null = null;

  constructor(config: TurnMachineConfig, turn: Turn) {
    this.#config = config;
    this.#turn = turn;
  }

  transition(): Transition {
    this.#tellProgress();
    return { turn: this.#turn, notices: this.#notices, status: "accepted" };
  }

  take(effect: Effect, response: EffectResponse): void {
    switch (response.type) {
      case "environment_synced":
        return this.#synced(response.environment);
      case "environment_failed": {
        const message = `Failed to refresh execution environment: ${response.message}`;
        return this.fail({ type: "runtime_error", failure: runtimeFailure("reconfigure_failed", { message }) });
      }
      case "model_replied":
        return this.#replied(storableReply(response.reply));
      case "model_failed":
        return this.#modelFailed(response.error);
      case "tool_returned":
      case "tool_waits":
        return this.#toolAnswered(effect, response);
      case "code_calls":
        return this.#codeCalls(response.calls);
      case "code_finished":
      case "code_failed":
        return this.#codeEnded(response);
      case "checkpoint_delivered":
        return this.#checkpoint(response);
    }
  }

  append(messages: readonly Message[]): void {
    this.#turn = { ...this.#turn, history: appendHistory(this.#turn.history, messages) };
  }

  addCauses(causes: TurnInput["turnCauses"]): boolean {
    const known = new Set(this.#turn.turnCauses.map((cause) => cause.id));
    const fresh = causes.filter((cause) => !known.has(cause.id) && known.add(cause.id));
    if (fresh.length === 0) return false;
    this.append(fresh.map(toEventMessage));
    this.#turn = { ...this.#turn, turnCauses: [...this.#turn.turnCauses, ...fresh] };
    return true;
  }

  /** Gets the next step going: the environment first, then calls somebody consented to, then what the protocol wants. */
  prepare(): void {
    const { step, syncedStep, approved } = this.#turn;
    if (this.#config.syncEnvironment && syncedStep !== step) {
      this.#turn = { ...this.#turn, phase: { type: "awaiting_environment", update: syncedStep !== null } };
    } else if (approved.length > 0) {
      this.#startApproved(approved);
    } else {
      this.#apply(this.#config.protocolDriver.prepareProtocolIteration(this.#view()));
    }
  }

  /** Runs what somebody consented to, each call at its place in the reply that made it. A tool that is gone is answered so. */
  #startApproved(approved: Turn["approved"]): void {
    const { turnId, step, environment, history } = this.#turn;
    const asked = newestCalls(history);
    const placed = approved.map(({ call, decision }, index) => {
      const slot = asked.findIndex(({ id, name }) => id === call.id && name === call.name);
      return { call, decision, slot: slot === -1 ? asked.length + index : slot };
    });
    const gone = placed.filter(({ call }) => !environment.tools.some(({ name }) => name === call.name));
    const calls = placed.filter((one) => !gone.includes(one));
    this.append(
      gone.map(({ call, slot }) =>
        unrunAnswer(call, "not_found", `no tool is called ${call.name} any more`, `${turnId}/${step}/answer/${slot}`),
      ),
    );
    this.#turn = { ...this.#turn, approved: [] };
    if (calls.length === 0) return this.prepare();
    const results = calls.map(() => null);
    this.#turn = { ...this.#turn, phase: { type: "awaiting_tools", calls, results, cell: null, driverState: null } };
  }

  /** Books what was spent; false when the sum is no longer a number one can count on, which ends the turn. */
  spend(usage: Usage): boolean {
    const sum = addUsage(this.#turn.usage, usage);
    if (sum.ok) {
      this.#turn = { ...this.#turn, usage: sum.value };
      return true;
    }
    const failure = runtimeFailure("token_usage_overflow", { message: sum.failure.message });
    this.fail({ type: "runtime_error", failure });
    return false;
  }

  /** Answers whatever the newest reply asked for and nobody answered, with what there is. */
  answerOpenCalls(why: string): void {
    const { phase, turnId, step, history } = this.#turn;
    const answers = openCalls(history).map(({ call, slot }) => {
      const id = `${turnId}/${step}/answer/${slot}`;
      const running = phase.type === "awaiting_tools" && phase.cell === null ? phase : null;
      const known = running?.results[running.calls.findIndex((one) => one.slot === slot)];
      return known?.type === "tool_returned" ? answerOf(call, known, id) : cancelledAnswer(call, why, id);
    });
    this.append(answers);
  }

  fail(outcome: Extract<TurnOutcome, { readonly type: "runtime_error" | "provider_error" }>): void {
    this.#notices.push({ type: "emit", event: { type: "error", error: outcome.failure } });
    this.answerOpenCalls("the turn failed");
    this.end(ending(outcome));
  }

  /** The turn is over, for good (K5). */
  end(given: Ending): void {
    this.#tellProgress();
    const { usage, step, finalize } = this.#turn;
    // Where a structured answer was wanted, how the loop ended is told in any case.
    const wanted = this.#config.structuredFinalize !== null;
    const how = wanted ? { ...given, pass1: finalize?.pass1.outcome ?? given.outcome } : given;
    this.#turn = { ...this.#turn, openReply: null, answered: [], phase: { type: "ended", ending: how } };
    this.#notices.push({ type: "done", ending: how, usage, messages: [], events: [], step });
  }

  #view(): DriverContextView {
    return new DriverContextView(this.#config, this.#turn);
  }

  #synced(environment: Environment | null): void {
    const { phase } = this.#turn;
    // What a turn starts with was pinned at its start: only a later sync may replace it.
    if (environment !== null && phase.type === "awaiting_environment" && phase.update) {
      this.#turn = { ...this.#turn, environment, environmentDigest: digestOf(canonicalJson(environment)) };
    }
    this.#turn = { ...this.#turn, syncedStep: this.#turn.step };
    this.prepare();
  }

  #replied(reply: ModelReply): void {
    if (!this.spend(reply.usage)) return;
    this.#log(reply);
    const { phase, finalize } = this.#turn;
    if (reply.finishReason === "error" || reply.error !== null) {
      const failure = reply.error ?? adapterFailure("unknown", { message: "the model call ended in an error" });
      return this.#broken(reply, failure);
    }
    if (isContextOverflow(reply, this.#config.maxContextTokens)) {
      const message = "Model produced no output because the prompt reached the configured context window.";
      return this.#broken(reply, adapterFailure("context_length_exceeded", { message }));
    }
    if (finalize !== null) return this.#finalized(reply, finalize);
    const driverState = phase.type === "awaiting_model" ? phase.driverState : null;
    this.#turn = { ...this.#turn, openReply: reply };
    this.#apply(this.#config.protocolDriver.handleLlmSuccess(this.#view(), reply, driverState));
  }

  #modelFailed({ failure, cancelled, partial }: LlmCallError): void {
    const heard = partial === null ? modelReply() : storableReply(partial);
    if (!this.spend(heard.usage)) return;
    const reply: ModelReply = { ...heard, finishReason: "error", error: failure, toolCalls: [] };
    if (this.#config.emitLlmTrace) {
      const { sessionId } = this.#config;
      this.#notices.push({
        type: "log",
        event: { type: "llm_error", sessionId, protocolIteration: this.#turn.step, failure },
      });
    }
    if (!cancelled) return this.#broken(reply, failure);
    const requestId = `internal:provider-cancelled:${this.#turn.step}`;
    this.#keepPartial(reply);
    this.end(ending({ type: "cancelled", evidence: { requestId, origin: "provider", reason: failure.message } }));
  }

  /** A reply that came to nothing: what was said of it stays, its calls are never run. */
  #broken(reply: ModelReply, failure: Failure): void {
    const { finalize } = this.#turn;
    this.#notices.push({ type: "emit", event: { type: "error", error: failure } });
    if (finalize !== null) return this.end({ ...finalize.pass1, pass2Error: failure });
    this.#keepPartial(reply);
    this.#stepEnded = { ...stepEndOf({ ...reply, error: failure }), step: this.#turn.step };
    this.end(ending({ type: "provider_error", failure }));
  }

  #keepPartial(reply: ModelReply): void {
    const text = replyText(reply) ?? "";
    if (text.trim() === "" || this.#turn.finalize !== null) return;
    const id = `${this.#turn.turnId}/${this.#turn.step}/reply`;
    this.append([assistant(text, { id, finishReason: reply.finishReason })]);
  }

  #toolAnswered(effect: Effect, result: CompletedToolCall["result"]): void {
    const { phase } = this.#turn;
    if (phase.type !== "awaiting_tools") return;
    const index = phase.calls.findIndex(
      ({ slot }) => effect.id === `${this.#turn.turnId}/${this.#turn.step}/tool/${slot}`,
    );
    const results = phase.results.with(index, result);
    this.#turn = { ...this.#turn, phase: { ...phase, results } };
    const completed = phase.calls.flatMap(({ call, slot }, at): readonly CompletedToolCall[] => {
      const known = results[at];
      return known === null || known === undefined ? [] : [{ call, slot, result: known }];
    });
    if (completed.length < phase.calls.length) return;
    if (phase.cell !== null) {
      if (completed.some(({ result: answer }) => answer.type === "tool_waits")) {
        const failure = runtimeFailure("code_failed", {
          message: "a call of the cell has to wait, and cells cannot wait yet",
        });
        return this.fail({ type: "runtime_error", failure });
      }
      const cell: Cell = { ...phase.cell, answers: [...phase.cell.answers, ...completed] };
      this.#turn = { ...this.#turn, phase: { type: "awaiting_code", cell, driverState: phase.driverState } };
      return;
    }
    this.#apply(this.#config.protocolDriver.handleToolResults(this.#view(), completed, phase.driverState));
  }

  #codeCalls(calls: Extract<EffectResponse, { type: "code_calls" }>["calls"]): void {
    const { phase } = this.#turn;
    if (phase.type !== "awaiting_code") return;
    if (calls.length === 0) {
      const failure = runtimeFailure("code_failed", { message: "the cell asked for calls and named none" });
      return this.fail({ type: "runtime_error", failure });
    }
    this.#turn = {
      ...this.#turn,
      phase: {
        type: "awaiting_tools",
        calls: calls.map((call, index) => ({ call, slot: phase.cell.answers.length + index, decision: null })),
        results: calls.map(() => null),
        cell: phase.cell,
        driverState: phase.driverState,
      },
    };
  }

  #codeEnded(result: CodeFinished | CodeFailed): void {
    const { phase } = this.#turn;
    if (phase.type !== "awaiting_code") return;
    this.#apply(this.#config.protocolDriver.handleExecResult(this.#view(), result, phase.driverState));
  }

  #checkpoint({ verdict, delivery }: CheckpointDelivered): void {
    const { phase } = this.#turn;
    if (phase.type !== "awaiting_checkpoint") return;
    if (verdict.type === "halt_when") return this.#finish(ending({ type: "halt_when" }));
    if (verdict.type === "budget") return this.#finish(ending({ type: "budget", budget: verdict.budget }));
    if (isLastCheckpoint(this.#turn) || !this.#deliver(delivery, phase.checkpoint)) {
      return phase.onEmpty.type === "finish" ? this.#finish(phase.onEmpty.ending) : this.prepare();
    }
    if (phase.checkpoint === "before_completion") {
      this.#nextStep(0);
      if (turnLimitDue(this.#config, this.#turn)) this.#grantGraceTurn();
    }
    this.prepare();
  }

  /** Adds what a host delivered; false when, after what may not be delivered is left out, there was nothing. */
  #deliver({ messages, transientMessages, turnCauses }: CheckpointDelivery, checkpoint: string): boolean {
    const allowed = messages.filter(mayBeDelivered);
    const passing = transientMessages.filter(mayBeDelivered);
    this.add(allowed, `${this.#turn.step}/${checkpoint}`);
    this.#show(passing);
    return this.addCauses(turnCauses) || allowed.length > 0 || passing.length > 0;
  }

  /** Adds input: to history, or, where it is said to be transient, to what is shown in this turn only. */
  add(messages: readonly Message[], place: string): void {
    const kept = messages.filter((message) => !isTransient(message.origin));
    this.append(kept.map((message, index) => named(message, `${this.#turn.turnId}/${place}/${index}`)));
    this.#show(messages.filter((message) => isTransient(message.origin)));
  }

  #show(messages: readonly Message[]): void {
    if (messages.length === 0) return;
    const at = this.#turn.history.length;
    this.#turn = {
      ...this.#turn,
      transient: [...this.#turn.transient, ...messages.map((message) => ({ at, message }))],
    };
  }

  #nextStep(free: number): void {
    const { step, runOffset } = this.#turn;
    this.#turn = { ...this.#turn, step: step + 1, runOffset: runOffset + free, openReply: null, answered: [] };
  }

  #grantGraceTurn(): void {
    this.#turn = { ...this.#turn, graceTurn: true };
    this.#sayTurnLimit();
  }

  #sayTurnLimit(): void {
    const text = this.#config.turnLimitFinalMessage;
    if (text === null) return;
    const { turnId, step } = this.#turn;
    const origin = { type: "plugin", pluginId: "turn_limit", transient: false } as const;
    this.append([system([textPart(text, { kind: "error" })], { id: `${turnId}/${step}/turn_limit`, origin })]);
  }

  /** Applies what a protocol wants done, in order. Exactly one of its actions says where the turn goes from here. */
  #apply(actions: readonly DriverAction[]): void {
    const directions = actions.filter(({ type }) => type.startsWith("start_") || type === "finish");
    if (directions.length !== 1) {
      return this.#refuse(`a protocol has to start one thing or finish; it wanted ${directions.length} of them`);
    }
    const [direction] = directions;
    if (direction?.type === "start_tools") {
      const slots = new Set(direction.calls.map(({ slot }) => slot));
      if (slots.size === 0 || slots.size < direction.calls.length) {
        return this.#refuse("a protocol has to start at least one call, each at a place of its own");
      }
    }
    // Whatever a list wants after its end is not done.
    const end = actions.findIndex(({ type }) => type === "finish");
    for (const action of end === -1 ? actions : actions.slice(0, end + 1)) this.#perform(action);
    const again = pendingEffects(this.#turn).find(({ id }) => this.#turn.answered.includes(id));
    if (again !== undefined) this.#refuse(`a protocol ordered ${again.id}, which has been answered already`);
  }

  #refuse(message: string): void {
    this.fail({ type: "runtime_error", failure: runtimeFailure("invalid_actions", { message }) });
  }

  #perform(action: DriverAction): void {
    const { turnId, step } = this.#turn;
    switch (action.type) {
      case "emit":
        this.#notices.push({ type: "emit", event: action.event });
        return;
      case "append_events":
        this.append(action.messages);
        if (action.events !== undefined) this.#record(action.events);
        return;
      case "end_step": {
        const { type: _, ...stepEnd } = action;
        this.#stepEnded = { ...stepEnd, step };
        return;
      }
      case "advance_protocol_iteration":
        this.#nextStep(action.free ? 1 : 0);
        return;
      case "start_llm": {
        const { useTools, overrides, driverState } = action;
        this.#turn = { ...this.#turn, phase: { type: "awaiting_model", useTools, overrides, driverState } };
        return;
      }
      case "start_tools": {
        const { calls, driverState } = action;
        const results = calls.map(() => null);
        this.#turn = { ...this.#turn, phase: { type: "awaiting_tools", calls, results, cell: null, driverState } };
        return;
      }
      case "start_exec": {
        const { language, code, driverState } = action;
        const cell: Cell = { id: `${turnId}/${step}/cell`, language, code, answers: [] };
        this.#turn = { ...this.#turn, phase: { type: "awaiting_code", cell, driverState } };
        return;
      }
      case "start_checkpoint": {
        const { checkpoint, onEmpty } = action;
        this.#turn = { ...this.#turn, phase: { type: "awaiting_checkpoint", checkpoint, onEmpty } };
        return;
      }
      case "finish":
        return this.#finish(action.ending);
    }
  }

  #record(events: readonly Json[]): void {
    this.#turn = { ...this.#turn, events: [...this.#turn.events, ...events] };
  }

  /** The loop is over; a turn that is to answer in a schema makes one more call first. */
  #finish(how: Ending): void {
    if (how.outcome.type === "max_turns" && !this.#turn.graceTurn) this.#sayTurnLimit();
    const wanted = this.#config.structuredFinalize;
    const reason = haltedReasonOf(how.outcome);
    const may = reason === "completed" || reason === "max_turns" || reason === "halt_when";
    if (wanted === null) return this.end(how);
    if (!may || how.pendingToolCalls.length > 0) return this.end(how);
    const { turnId, step } = this.#turn;
    const nudge = wanted.nudge === "" ? null : user(wanted.nudge, { id: `${turnId}/${step}/nudge` });
    const { name, schema, strict, type } = wanted.format;
    this.#turn = {
      ...this.#turn,
      finalize: { pass1: how, nudge },
      phase: {
        type: "awaiting_model",
        useTools: false,
        overrides: { responseFormat: { type, name, schema, strict } },
        driverState: null,
      },
    };
  }

  /** The structured reply is there: it and the nudge that asked for it enter history together. */
  #finalized(reply: ModelReply, { nudge }: NonNullable<Turn["finalize"]>): void {
    const text = replyText(reply) ?? "";
    const said = replyMessage({ ...reply, toolCalls: [] }, `${this.#turn.turnId}/${this.#turn.step}/structured`);
    this.append([...(nudge === null ? [] : [nudge]), said]);
    this.#stepEnded = { ...stepEndOf(reply), step: this.#turn.step };
    this.end(ending(outcomeOfText(reply, text)));
  }

  #log(reply: ModelReply): void {
    if (!this.#config.emitLlmTrace) return;
    const { sessionId } = this.#config;
    const { usage } = reply;
    const responseText = replyText(reply) ?? "";
    this.#notices.push({
      type: "log",
      event: { type: "llm_debug", sessionId, protocolIteration: this.#turn.step, usage, responseText },
    });
  }

  /** Tells the host what is new, once for all that one transition added. */
  #tellProgress(): void {
    const { history, reported, events, reportedEvents, step } = this.#turn;
    const messages = history.entries.slice(reported, history.length);
    const recorded = events.slice(reportedEvents);
    if (messages.length === 0 && recorded.length === 0 && this.#stepEnded === null) return;
    this.#notices.push({ type: "progress", messages, events: recorded, step, stepEnded: this.#stepEnded });
    this.#stepEnded = null;
    this.#turn = { ...this.#turn, reported: history.length, reportedEvents: events.length };
  }
}

/** Hosts speak for users and for the runtime, not for the model. */
function mayBeDelivered(message: Message): boolean {
  return message.role === "user" || message.role === "system";
}

function stepEndOf(reply: ModelReply): StepEnd {
  return { reply, toolResults: [], pendingToolCalls: [], manualToolCalls: [], mode: "auto" };
}

/** The message with a name of its own, if it has none. */
export function named<M extends Message>(message: M, id: string): M {
  return message.id === null ? { ...message, id } : message;
}
