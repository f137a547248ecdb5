// The types of the parts of a chat of the AI SDK. The server writes the parts, and pages read them.

import type {
  EventOf,
  HaltedReason,
  Json,
  JsonObject,
  SessionStatus,
  Usage,
  Warning,
} from "../../core/model/internal.ts";

/** The parts of this library in a chat of the AI SDK, for its `UIMessage`: `data-question` and the others. */
export type UiData = {
  readonly question: UiQuestion;
  /** For `onData` only: what a running tool reports. */
  readonly "tool-progress": UiProgress;
  readonly "steering-message": UiSteeringMessage;
  /** For version 6 only: the parts of the step before it are withdrawn. */
  readonly "step-reset": JsonObject;
  /** For `onData` only. */
  readonly warning: Warning;
  /** For `onData` only. */
  readonly compaction: UiCompaction;
};

/** The metadata of a message, from the newest turn that extended it. */
export type UiMetadata = {
  readonly turnId: string;
  readonly status?: SessionStatus;
  readonly haltedReason?: HaltedReason;
  readonly usage?: Usage;
  /** The version of the session after the turn. */
  readonly version?: number;
};

/**
 * The tools of an engine as the AI SDK types them, for its `UIMessage`. Import the engine as a type: a page has none of
 * its code.
 *
 * @example
 * ```ts
 * import type { UIMessage } from "ai";
 * import type { UiData, UiMetadata, UiTools } from "everturn/client";
 *
 * import { engine, tool } from "everturn";
 *
 * const clock = tool({ name: "clock", description: "Tells the time.", schema: { type: "object" }, handler: () => ({ hour: 8 }) });
 * const agent = engine({ tools: [clock] });
 * type Message = UIMessage<UiMetadata, UiData, UiTools<typeof agent>>; // for useChat<Message>
 *
 * const hours = ({ parts }: Message): readonly number[] =>
 *   parts.flatMap((part) => (part.type === "tool-clock" && part.state === "output-available" ? [part.output.hour] : []));
 * const output = { hour: 8 };
 * const part = { type: "tool-clock", toolCallId: "c1", state: "output-available", input: {}, output } as const;
 * hours({ id: "m1", role: "assistant", parts: [part] }); // => [8]
 * ```
 */
export type UiTools<Agent> = Agent extends { readonly "~tools"?: readonly (infer One)[] }
  ? {
      [Each in One as NameOf<Each>]: Each extends { readonly "~types"?: infer Types }
        ? Mutable<NonNullable<Types>>
        : never;
    }
  : never;

type NameOf<One> = One extends { readonly name: infer Name extends string } ? Name : never;

/** The types of a tool as the AI SDK declares them. */
type Mutable<Types> = Types extends { readonly input: infer Input; readonly output: infer Output }
  ? { input: Input; output: Output }
  : { input: unknown; output: unknown };

/** A question of a tool. The next user message is the answer. */
export type UiQuestion = { readonly toolCallId: string; readonly question: string; readonly opts: JsonObject };

/** Old messages are being replaced by a summary in requests, or were. The conversation keeps them. */
export type UiCompaction = {
  /** `running` while the summary is written; then how the compaction ended. */
  readonly status: "running" | EventOf<"compaction_ended">["status"];
  /** The position of the first message that the summary is about. */
  readonly from: number;
  /** The position after the last one. */
  readonly to: number;
};

/** A progress report of a tool. */
export type UiProgress = { readonly toolCallId: string; readonly toolName: string; readonly progress: Json };

/** Input that was added to the open turn. */
export type UiSteeringMessage = { readonly parts: readonly (UiTextPart | UiFilePart)[] };

export type UiTextPart = { readonly type: "text"; readonly text: string; readonly state?: "done" };

export type UiFilePart = {
  readonly type: "file";
  readonly mediaType: string;
  readonly url: string;
  readonly filename?: string;
};
