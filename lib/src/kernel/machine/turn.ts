// The state of a turn, which is also its checkpoint: plain JSON, from which everything it waits for can be worked out (K2, K3).

import type {
  AssistantMessage,
  CancelEvidence,
  CellCall,
  CheckpointKind,
  Decision,
  Environment,
  Failure,
  Json,
  JsonObject,
  JsonSchemaFormat,
  Message,
  ModelName,
  ModelReply,
  PendingToolCall,
  SuspendedCell,
  ToolCall,
  ToolMessage,
  ToolMode,
  ToolOutcome,
  ProviderTool,
  ToolSpec,
  TurnEvent,
  TurnOutcome,
  Usage,
} from "../../model/internal.ts";
import type { TurnHistory } from "../history/history.ts";
import type { SharedList } from "../history/shared-list.ts";
import type { TurnCause } from "../history/turn-cause.ts";
import type { ContextProjector, ProtocolDriver, TurnProtocol, UnitTurnProtocol } from "../protocol/protocol.ts";
import type { LlmTerminalReason } from "../protocol/terminal-reason.ts";
import type { Approval, Effect, ToolReturned, ToolWaits } from "./effect.ts";

import { trimmed } from "../history/shared-list.ts";

/**
 * The newest kernel revision (Q6). It is raised when the machine would order other effects than before for the same responses. A release supports every
 * older revision: where it decides differently it branches on `turn.revision`. There is one revision so far, and no branch.
 */
export const kernelRevision = 1;

/**
 * What a turn runs with and does not store: it must be supplied again to restore a turn. Model, instructions,
 * tools, settings and limits are fixed when the turn starts and are part of its state.
 */
export type TurnMachineConfig<P extends TurnProtocol = UnitTurnProtocol> = TurnSettings<P> & {
  readonly protocolDriver: ProtocolDriver<P>;
  readonly projector: ContextProjector<P>;
};

/** The part of a configuration that is data: what protocols and projectors get to see of it. */
export type TurnSettings<P extends TurnProtocol = UnitTurnProtocol> = TurnPolicy<P> & {
  readonly sessionId: string;
  readonly model: ModelName | null;
  readonly systemPrompt: string;
  readonly toolSpecs: readonly ToolSpec[];
  /** Tools that the provider runs by itself. */
  readonly providerTools: readonly ProviderTool[];
  /** Settings of model calls: what a request has fields for. */
  readonly generation: JsonObject;
  readonly modelVariant: string | null;
  /** Tell the log what went to the model and what came back. */
  readonly emitLlmTrace: boolean;
};

/**
 * Limits and end conditions of a turn. They are fixed when the turn starts: a deployment changes the next turn,
 * never an open one.
 */
export type TurnPolicy<P extends TurnProtocol = UnitTurnProtocol> = {
  /** Ask for the environment at the start and before every further step. */
  readonly syncEnvironment: boolean;
  /** Model calls a turn may take; `null` is no limit. */
  readonly maxTurns: number | null;
  /** The window of the model, where it is known. */
  readonly maxContextTokens: number | null;
  /** Told to the model before the one call a turn may make beyond its limit, when input arrived at its end. */
  readonly turnLimitFinalMessage: string | null;
  /** After the loop, one more call that answers in this schema. */
  readonly structuredFinalize: { readonly format: JsonSchemaFormat; readonly nudge: string } | null;
  /** Nobody is there to be asked. For protocols to look at. */
  readonly autonomous: boolean;
  /** What a protocol has to know about how this turn is to end. */
  readonly termination: P["termination"];
};

/** The input of a turn: history, new messages, and answers to calls that were pending. */
export type TurnInput = {
  readonly turnId: string;
  /** The kernel revision the turn is started under: the newest one for a new turn, the stored one when a turn is replayed. */
  readonly revision: number;
  /** What was said before this turn: messages, or a history that a turn before left, which costs nothing to go on from. */
  readonly history: readonly Message[] | TurnHistory;
  /** What is said now; may be empty. */
  readonly messages: readonly Message[];
  readonly turnCauses: readonly TurnCause[];
  /** What was said to calls that waited. Those somebody consented to are the first thing the turn does. */
  readonly answers: readonly CallAnswer[];
  /** The cell of code that waited for some of them, and goes on once it has them. */
  readonly cell: SuspendedCell | null;
  /** The number of steps before this turn, where steps are counted on. */
  readonly runOffset: number;
};

/** What somebody said to a call that waited: its result, the answer to its question, consent, or refusal. */
export type CallAnswer =
  | {
      readonly type: "result";
      readonly call: ToolCall;
      readonly outcome: ToolOutcome;
      readonly content: ToolMessage["content"];
    }
  | {
      readonly type: "decision";
      readonly call: ToolCall;
      readonly decision: Decision;
      /** Of an earlier try of the same call, if there was one. */
      readonly idempotencyKey: string | null;
    };

/** A call that somebody has consented to, and its place in the reply or the cell that made it. */
export type ApprovedCall = {
  readonly call: ToolCall;
  readonly slot: number;
  readonly decision: Approval;
  readonly idempotencyKey: string | null;
};

/** The state of a turn: plain data from which the pending effects follow (K2). */
export type Turn<P extends TurnProtocol = UnitTurnProtocol> = {
  /** The kernel revision that decides this turn to its end. */
  readonly revision: number;
  readonly turnId: string;
  readonly policy: TurnPolicy<P>;
  readonly history: TurnHistory;
  /** How many messages of the history have been told to the host, and how many of those it was given. */
  readonly reported: number;
  /** Messages for this turn only, and where in the history they stand. */
  readonly transient: SharedList<{ readonly at: number; readonly message: Message }>;
  readonly events: SharedList<P["event"]>;
  readonly reportedEvents: number;
  readonly turnCauses: readonly TurnCause[];
  readonly step: number;
  readonly runOffset: number;
  readonly environment: Environment;
  readonly environmentDigest: string;
  readonly syncedStep: number | null;
  readonly approved: readonly ApprovedCall[];
  /** The cell this turn was started to go on with, until it does. */
  readonly resumes: SuspendedCell | null;
  /** What the turn has cost, and what of it the open step has. */
  readonly usage: Usage;
  readonly stepUsage: Usage;
  /** The reply of the step that is open; `null` between steps. */
  readonly openReply: ModelReply | null;
  /** The effects of this step that have been answered: none of them may be ordered again. */
  readonly answered: readonly string[];
  /** The one call beyond the limit has been granted. */
  readonly graceTurn: boolean;
  /** The loop has ended like this, and the structured call is under way. */
  readonly finalize: { readonly pass1: Ending; readonly nudge: Message | null } | null;
  readonly phase: Phase<P>;
};

/** What a turn waits for. Each waiting phase holds the data from which its effects are computed. */
export type Phase<P extends TurnProtocol = UnitTurnProtocol> =
  | { readonly type: "awaiting_environment"; readonly update: boolean }
  | {
      readonly type: "awaiting_model";
      readonly useTools: boolean;
      readonly overrides: JsonObject;
      readonly driverState: P["driverState"] | null;
    }
  | AwaitingTools<P>
  | { readonly type: "awaiting_code"; readonly cell: Cell<P> }
  | {
      readonly type: "awaiting_checkpoint";
      readonly checkpoint: CheckpointKind;
      readonly onEmpty: CheckpointResumeAction;
    }
  | { readonly type: "ended"; readonly ending: Ending };

export type AwaitingTools<P extends TurnProtocol = UnitTurnProtocol> = {
  readonly type: "awaiting_tools";
  readonly calls: readonly SlottedCall[];
  /** One result a call; `null` until it has been answered. */
  readonly results: readonly (ToolReturned | ToolWaits | null)[];
  /** The cell of code that made the calls, if one did. */
  readonly cell: BegunCell<P> | null;
};

/** A call and its place among the calls of its step, which is what it is known by: providers repeat ids. */
export type SlottedCall = {
  readonly call: ToolCall;
  readonly slot: number;
  readonly decision: Approval | null;
  /** Of an earlier try; `null` for a first one, which is known by its effect. */
  readonly idempotencyKey: string | null;
};

/** A cell of code that is running. */
export type Cell<P extends TurnProtocol = UnitTurnProtocol> = {
  readonly id: string;
  readonly language: string;
  readonly code: string;
  readonly executor: SuspendedCell["executor"] | null;
  /** The calls it made, in its order; the place of a call in this list is its slot. */
  readonly calls: readonly CellCall[];
  readonly driverState: P["driverState"] | null;
  /** A resumed cell runs in the surroundings it was written for; these are the turn's own, for when it has ended. */
  readonly environmentAfter: Environment | null;
};

/** A cell that has made calls: somebody has begun it. */
export type BegunCell<P extends TurnProtocol = UnitTurnProtocol> = Cell<P> & {
  readonly executor: SuspendedCell["executor"];
};

/** A tool call and its response. */
export type CompletedToolCall = {
  readonly call: ToolCall;
  readonly slot: number;
  readonly idempotencyKey: string;
  readonly result: ToolReturned | ToolWaits;
};

/** What a turn does after a checkpoint: begin the next step, or end. */
export type CheckpointResumeAction =
  | { readonly type: "prepare_iteration" }
  | { readonly type: "finish"; readonly ending: Ending };

/** How a turn ended, and what it leaves open. */
export type Ending = {
  readonly outcome: TurnOutcome;
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The cell of code that waits for some of them. */
  readonly suspendedCell: SuspendedCell | null;
  /** What had arrived of a reply that was cancelled and is not in history. */
  readonly partial: AssistantMessage | null;
  readonly pass1: TurnOutcome | null;
  readonly pass2Error: Failure | null;
};

/** A notification to the host. It needs no response. */
export type Notice<P extends TurnProtocol = UnitTurnProtocol> =
  | { readonly type: "emit"; readonly event: TurnEvent }
  | { readonly type: "log"; readonly event: LogEvent }
  | ({ readonly type: "progress"; readonly stepEnded: EndedStep | null } & Progress<P>)
  | ({ readonly type: "done"; readonly ending: Ending; readonly usage: Usage } & Progress<P>);

/** What is new since the last notice. It is reported before the effects that depend on it. */
export type Progress<P extends TurnProtocol = UnitTurnProtocol> = {
  readonly messages: readonly Message[];
  readonly events: readonly P["event"][];
  readonly step: number;
};

/** A step is over: what its result is made of. */
export type StepEnd = {
  readonly reply: ModelReply;
  readonly toolResults: readonly ToolMessage[];
  readonly pendingToolCalls: readonly PendingToolCall[];
  readonly manualToolCalls: readonly ToolCall[];
  /** The cell of code that waits for some of the pending calls. */
  readonly suspendedCell: SuspendedCell | null;
  readonly mode: ToolMode;
};

/** The same with the number of the step that ended, and what it has cost: all attempts at its reply, and turns its tools ran. */
export type EndedStep = StepEnd & { readonly step: number; readonly usage: Usage };

/** A trace of a model call. Emitted only if `emitLlmTrace` is set. */
export type LogEvent = LlmDebug | LlmError;

/** The trace of a model call that succeeded. */
export type LlmDebug = {
  readonly type: "llm_debug";
  readonly sessionId: string;
  readonly protocolIteration: number;
  readonly usage: Usage;
  /** What the provider reported beyond what we have fields for. */
  readonly providerUsage: JsonObject;
  readonly requestBody: string | null;
  readonly responseText: string;
  readonly responseParts: Json;
};

/** The trace of a model call that failed. */
export type LlmError = {
  readonly type: "llm_error";
  readonly sessionId: string;
  readonly protocolIteration: number;
  readonly requestBody: string | null;
  readonly message: string;
  readonly retryable: boolean;
  readonly raw: string | null;
  readonly code: string | null;
  readonly terminalReason: LlmTerminalReason;
};

/** What became of a response: taken; nobody was waiting for it; not what that effect can be answered with. */
export type ResponseStatus = "accepted" | "stale" | "wrong_kind";

export type Transition<P extends TurnProtocol = UnitTurnProtocol> = {
  readonly turn: Turn<P>;
  readonly notices: readonly Notice<P>[];
  readonly status: ResponseStatus;
};

/** Why a turn is to stop, and what had been received when somebody said so. */
export type Cancellation = {
  readonly evidence: CancelEvidence;
  readonly received: AssistantMessage | null;
  readonly usage: Usage;
};

/** The effects a turn is waiting for. Worked out, never stored: a restored turn knows what to ask for again (K2). */
export function pendingEffects(turn: Turn<TurnProtocol>): readonly Effect[] {
  const { phase } = turn;
  const id = (what: string) => `${turn.turnId}/${turn.step}/${what}`;
  switch (phase.type) {
    case "awaiting_environment":
      return [{ type: "sync_environment", id: id("environment"), updateMachineConfig: phase.update }];
    case "awaiting_model": {
      const { useTools, overrides } = phase;
      const { length, digest } = turn.history;
      const what = turn.finalize === null ? "model" : "finalize";
      const environment = turn.environmentDigest;
      return [
        {
          type: "call_model",
          id: id(what),
          step: turn.step,
          environment,
          history: { length, digest },
          useTools,
          overrides,
        },
      ];
    }
    case "awaiting_tools":
      return phase.calls.flatMap((call, index) => (phase.results[index] === null ? [callTool(turn, call)] : []));
    case "awaiting_code": {
      const { language, code, calls, executor, id: cellId } = phase.cell;
      const what = `code/${calls.length}`;
      return [{ type: "run_code", id: id(what), language, cellId, code, answers: calls.length, executor }];
    }
    case "awaiting_checkpoint":
      return [
        { type: "checkpoint", id: id(phase.checkpoint), checkpoint: phase.checkpoint, last: isLastCheckpoint(turn) },
      ];
    case "ended":
      return [];
  }
}

/** The effect of that id, if the turn waits for it. Cheaper than working them all out, where there are many calls. */
export function pendingEffect(turn: Turn<TurnProtocol>, id: string): Effect | null {
  const { phase } = turn;
  if (phase.type !== "awaiting_tools") return pendingEffects(turn).find((effect) => effect.id === id) ?? null;
  const slot = Number(id.slice(id.lastIndexOf("/") + 1));
  if (id !== callEffectId(turn, slot)) return null;
  const index = phase.calls.findIndex((call) => call.slot === slot);
  const call = phase.calls[index];
  return call === undefined || phase.results[index] !== null ? null : callTool(turn, call);
}

/** Do both turns wait for the same batch of calls? Then the calls that are still open have been ordered already. */
export function isSameBatch({ phase: before }: Turn<TurnProtocol>, { phase: after }: Turn<TurnProtocol>): boolean {
  return before.type === "awaiting_tools" && after.type === "awaiting_tools" && before.calls === after.calls;
}

function callTool(turn: Turn<TurnProtocol>, { call, slot, decision, idempotencyKey }: SlottedCall): Effect {
  const id = callEffectId(turn, slot);
  return { type: "call_tool", id, call, decision, idempotencyKey: idempotencyKey ?? id };
}

/** The id of the call at that place of the reply of a step. */
export function toolEffectId(turn: Pick<Turn, "turnId" | "step">, slot: number): string {
  return `${turn.turnId}/${turn.step}/tool/${slot}`;
}

/** The id of a call that is running: one of the reply, or one of the cell. */
export function callEffectId(turn: Turn<TurnProtocol>, slot: number): string {
  const { phase, turnId, step } = turn;
  const inCell = phase.type === "awaiting_code" || (phase.type === "awaiting_tools" && phase.cell !== null);
  return inCell ? `${turnId}/${step}/cell/${slot}` : toolEffectId(turn, slot);
}

/** The calls a running cell has made so far, and their answers: what {@link RunCode} is to be performed with. */
export function cellCalls(turn: Turn<TurnProtocol>): readonly CellCall[] {
  return turn.phase.type === "awaiting_code" ? turn.phase.cell.calls : [];
}

/** Will no model call follow this checkpoint, whatever is delivered at it? Then nothing should be. */
export function isLastCheckpoint({ phase, graceTurn }: Pick<Turn<TurnProtocol>, "phase" | "graceTurn">): boolean {
  if (phase.type !== "awaiting_checkpoint" || phase.onEmpty.type !== "finish") return false;
  return phase.checkpoint === "after_work" || graceTurn;
}

/** A turn as it should be stored: without what later ones have written behind the ends of its lists. */
export function storableTurn<P extends TurnProtocol>(turn: Turn<P>): Turn<P> {
  const { history, events, transient } = turn;
  return { ...turn, history: trimmed(history), events: trimmed(events), transient: trimmed(transient) };
}
