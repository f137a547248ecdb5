// The state of a turn, which is also its checkpoint: plain JSON, from which everything it waits for can be worked out (K2, K3).

import type {
  AssistantMessage,
  CancelEvidence,
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
  ToolCall,
  ToolMessage,
  ToolMode,
  ToolSpec,
  TurnEvent,
  TurnOutcome,
  Usage,
} from "../model/index.ts";
import type { Effect, ToolReturned, ToolWaits } from "./effect.ts";
import type { TurnHistory } from "./history.ts";
import type { ContextProjector, ProtocolDriver } from "./protocol.ts";
import type { TurnCause } from "./turn-cause.ts";

/** Raised when `advance` would order other effects than before for the same responses; a turn goes on under the one it began with. */
export const kernelRevision = 1;

/**
 * What a turn is run with and is not part of its state: it is supplied again when a turn is restored. Model, instructions, tools and settings
 * are pinned in the environment of a turn when it starts; limits and messages of the runtime are those of the configuration at hand.
 */
export type TurnMachineConfig = {
  readonly protocolDriver: ProtocolDriver;
  readonly projector: ContextProjector;
  /** Ask for the environment at the start and before every further step. */
  readonly syncEnvironment: boolean;
  readonly sessionId: string;
  readonly model: ModelName | null;
  readonly systemPrompt: string;
  readonly toolSpecs: readonly ToolSpec[];
  /** Settings of model calls: what a request has fields for. */
  readonly generation: JsonObject;
  readonly modelVariant: string | null;
  readonly maxContextTokens: number | null;
  /** Model calls a turn may take; `null` is no limit. */
  readonly maxTurns: number | null;
  /** Told to the model before the one call a turn may make beyond its limit, when input arrived at its end. */
  readonly turnLimitFinalMessage: string | null;
  /** After the loop, one more call that answers in this schema. */
  readonly structuredFinalize: { readonly format: JsonSchemaFormat; readonly nudge: string } | null;
  /** Nobody is there to be asked. For protocols to look at. */
  readonly autonomous: boolean;
  /** Tell the log what went to the model and what came back. */
  readonly emitLlmTrace: boolean;
  readonly termination: Json;
};

/** What a turn begins with. */
export type TurnInput = {
  readonly turnId: string;
  /** What was said before this turn. */
  readonly history: readonly Message[];
  /** What is said now; may be empty. */
  readonly messages: readonly Message[];
  readonly turnCauses: readonly TurnCause[];
  /** What was said to calls that waited. Those somebody consented to are the first thing the turn does. */
  readonly answers: readonly CallAnswer[];
  /** The number of steps before this turn, where steps are counted on. */
  readonly runOffset: number;
};

/** What somebody said to a call that waited: its result, the answer to its question, consent, or refusal. */
export type CallAnswer =
  | { readonly type: "result"; readonly call: ToolCall; readonly content: ToolMessage["content"] }
  | { readonly type: "decision"; readonly call: ToolCall; readonly decision: Decision };

/** A call that somebody has consented to. */
export type ApprovedCall = {
  readonly call: ToolCall;
  readonly decision: Extract<Decision, { readonly type: "approve" }>;
};

export type Turn = {
  readonly revision: number;
  readonly turnId: string;
  readonly history: TurnHistory;
  /** How many messages of the history have been told to the host, and how many of those it was given. */
  readonly reported: number;
  /** Messages for this turn only, and where in the history they stand. */
  readonly transient: readonly { readonly at: number; readonly message: Message }[];
  readonly events: readonly Json[];
  readonly reportedEvents: number;
  readonly turnCauses: readonly TurnCause[];
  readonly step: number;
  readonly runOffset: number;
  readonly environment: Environment;
  readonly environmentDigest: string;
  readonly syncedStep: number | null;
  readonly approved: readonly ApprovedCall[];
  readonly usage: Usage;
  /** The reply of the step that is open; `null` between steps. */
  readonly openReply: ModelReply | null;
  /** The effects of this step that have been answered: none of them may be ordered again. */
  readonly answered: readonly string[];
  /** The one call beyond the limit has been granted. */
  readonly graceTurn: boolean;
  /** The loop has ended like this, and the structured call is under way. */
  readonly finalize: { readonly pass1: Ending; readonly nudge: Message | null } | null;
  readonly phase: Phase;
};

/** What a turn is doing. Each waiting phase holds what it takes to work out its effects again. */
export type Phase =
  | { readonly type: "awaiting_environment"; readonly update: boolean }
  | {
      readonly type: "awaiting_model";
      readonly useTools: boolean;
      readonly overrides: JsonObject;
      readonly driverState: Json;
    }
  | AwaitingTools
  | {
      readonly type: "awaiting_code";
      readonly cell: Cell;
      readonly driverState: Json;
    }
  | {
      readonly type: "awaiting_checkpoint";
      readonly checkpoint: CheckpointKind;
      readonly onEmpty: CheckpointResumeAction;
    }
  | { readonly type: "ended"; readonly ending: Ending };

export type AwaitingTools = {
  readonly type: "awaiting_tools";
  readonly calls: readonly SlottedCall[];
  /** One result a call; `null` until it has been answered. */
  readonly results: readonly (ToolReturned | ToolWaits | null)[];
  /** The cell of code that made the calls, if one did. */
  readonly cell: Cell | null;
  readonly driverState: Json;
};

/** A call and its place among the calls of its step, which is what it is known by: providers repeat ids. */
export type SlottedCall = {
  readonly call: ToolCall;
  readonly slot: number;
  readonly decision: ApprovedCall["decision"] | null;
};

export type Cell = {
  readonly id: string;
  readonly language: string;
  readonly code: string;
  readonly answers: readonly CompletedToolCall[];
};

/** A call and what became of it. */
export type CompletedToolCall = {
  readonly call: ToolCall;
  readonly slot: number;
  readonly result: ToolReturned | ToolWaits;
};

export type CheckpointResumeAction =
  | { readonly type: "prepare_iteration" }
  | { readonly type: "finish"; readonly ending: Ending };

/** How a turn ended, and what it leaves open. */
export type Ending = {
  readonly outcome: TurnOutcome;
  readonly pendingToolCalls: readonly PendingToolCall[];
  readonly pass1: TurnOutcome | null;
  readonly pass2Error: Failure | null;
};

/** Told to the host; no answer is expected. */
export type Notice =
  | { readonly type: "emit"; readonly event: TurnEvent }
  | { readonly type: "log"; readonly event: LogEvent }
  | ({ readonly type: "progress"; readonly stepEnded: EndedStep | null } & Progress)
  | ({ readonly type: "done"; readonly ending: Ending; readonly usage: Usage } & Progress);

/** What is new since the host was told last. It is told before the effects that depend on it are to be performed. */
export type Progress = {
  readonly messages: readonly Message[];
  readonly events: readonly Json[];
  readonly step: number;
};

/** A step is over: what its result is made of. */
export type StepEnd = {
  readonly reply: ModelReply;
  readonly toolResults: readonly ToolMessage[];
  readonly pendingToolCalls: readonly PendingToolCall[];
  readonly manualToolCalls: readonly ToolCall[];
  readonly mode: ToolMode;
};

/** The same with the number of the step that ended. */
export type EndedStep = StepEnd & { readonly step: number };

export type LogEvent =
  | {
      readonly type: "llm_debug";
      readonly sessionId: string;
      readonly protocolIteration: number;
      readonly usage: Usage;
      readonly responseText: string;
    }
  | {
      readonly type: "llm_error";
      readonly sessionId: string;
      readonly protocolIteration: number;
      readonly failure: Failure;
    };

/** What became of a response: taken; nobody was waiting for it; not what that effect can be answered with. */
export type ResponseStatus = "accepted" | "stale" | "wrong_kind";

export type Transition = {
  readonly turn: Turn;
  readonly notices: readonly Notice[];
  readonly status: ResponseStatus;
};

/** Why a turn is to stop, and what had been received when somebody said so. */
export type Cancellation = {
  readonly evidence: CancelEvidence;
  readonly received: AssistantMessage | null;
  readonly usage: Usage;
};

/** The effects a turn is waiting for. Worked out, never stored: a restored turn knows what to ask for again (K2). */
export function pendingEffects(turn: Turn): readonly Effect[] {
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
      return phase.calls.flatMap(({ call, slot, decision }, index): readonly Effect[] =>
        phase.results[index] === null ? [{ type: "call_tool", id: id(`tool/${slot}`), call, decision }] : [],
      );
    case "awaiting_code": {
      const { language, code, answers, id: cellId } = phase.cell;
      const what = `code/${answers.length}`;
      return [{ type: "run_code", id: id(what), language, cellId, code, answers: answers.length }];
    }
    case "awaiting_checkpoint":
      return [
        { type: "checkpoint", id: id(phase.checkpoint), checkpoint: phase.checkpoint, last: isLastCheckpoint(turn) },
      ];
    case "ended":
      return [];
  }
}

/** Will no model call follow this checkpoint, whatever is delivered at it? Then nothing should be. */
export function isLastCheckpoint({ phase, graceTurn }: Turn): boolean {
  if (phase.type !== "awaiting_checkpoint" || phase.onEmpty.type !== "finish") return false;
  return phase.checkpoint === "after_work" || graceTurn;
}
