// Pending tool calls: calls that wait for a result, an answer or a decision, and which of these each reason accepts
// (`answersByReason`).
//
// What a person approves is what runs (A1). `shown` is what an approval would run: the innermost call, with the
// arguments that the `beforeTool` hook produced. `digest` identifies it. An interface shows `shown` and sends `digest`
// back with the decision; `decide` refuses another digest.
//
// Invariant: `digest` is computed from the other fields whenever a pending call is built or read. A stored value of it
// is ignored, so calls that older releases stored have one too.

import type { Json, JsonObject } from "../parse/json.ts";
import type { Infer, InferUnion, Shape, WordOf } from "../parse/shape.ts";
import type { ReplayPolicy, ToolCall, ToolCallInput } from "./tool.ts";

import { canonicalJson } from "../parse/canonical-json.ts";
import { emptyObject, isPlainObject } from "../parse/json.ts";
import { sha256Text } from "../parse/sha256.ts";
import {
  array,
  derived,
  fallback,
  json,
  jsonObject,
  nullable,
  object,
  oneOf,
  openObject,
  optional,
  required,
  string,
  variant,
} from "../parse/shape.ts";
import { toolValueShape } from "./tool-value.ts";
import { replayPolicies, toolCallFields } from "./tool.ts";

/**
 * Why a call waits. `manual`: the caller runs the tool. `approval`: it needs an approval. `question`: the tool asked
 * the user. `outcome_unknown`: it started before a crash, has no recorded result, and the replay policy is `ask`.
 */
export type PendingReason = WordOf<typeof pendingReasons>;
export const pendingReasons = ["manual", "approval", "question", "outcome_unknown"] as const;

/** The form of an answer to a question: a user message, or the result of the call that asked. */
export type AnswerForm = WordOf<typeof answerForms>;
export const answerForms = ["user_message", "tool_result"] as const;

/** A kind of answer to a pending call. */
export type AnswerKind = WordOf<typeof answerKinds>;
export const answerKinds = ["result", "approve", "deny", "answer"] as const;

/** The kinds of answer that a pending call accepts, by its reason. */
export const answersByReason: { readonly [R in PendingReason]: readonly AnswerKind[] } = {
  manual: ["result"],
  approval: ["approve", "deny"],
  question: ["answer"],
  outcome_unknown: ["result", "approve", "deny"],
};

const answerCases = {
  approve: {
    /** Arguments of the person who approved, instead of those that were shown; `null`: none. */
    arguments: fallback(nullable(jsonObject), null),
    by: fallback(nullable(string), null),
    /**
     * The arguments that were shown, if a `beforeTool` hook had replaced those of the call. Absent, not `null`,
     * otherwise: a decision is part of an effect, and recorded effects of older releases lack the field.
     */
    prepared: optional(jsonObject),
  },
  deny: { reason: fallback(nullable(string), null), by: fallback(nullable(string), null) },
};

const forwardedCases = {
  result: { value: required(toolValueShape) },
  answer: { text: required(string) },
  ...answerCases,
};

/** An answer to a nested call of a turn that a tool runs. */
export type ForwardedAnswer = InferUnion<"type", typeof forwardedCases>;

export const forwardedShape: Shape<ForwardedAnswer> = variant("type", forwardedCases);

const isTrue: Shape<true> = (input, reading) =>
  input === true ? true : reading.report("invalid_type", "must be true");

const decisionCases = {
  ...answerCases,
  forward: {
    /** The arguments the tool ran with before it waited, if they differ from those of the call. */
    arguments: fallback(nullable(jsonObject), null),
    /** The person or component that answered; `null` if unknown. */
    by: fallback(nullable(string), null),
    /** Identifies the nested turn and the wait in it that the answer is for, or is `handlerWait`. */
    wait: required(string),
    /** The answer for the nested call, or for the handler. */
    answer: required(forwardedShape),
    /** The state that the handler stored with its question; `null` for a nested turn. */
    state: fallback(json, null),
    /**
     * A person approved the call before it waited: its arguments stay as they are (A1). Absent otherwise, for the
     * reason of `prepared`.
     */
    approved: optional(isTrue),
  },
};

/**
 * A decision about a pending call: approve it (with other arguments if given), deny it (the model reads the
 * reason), or forward an answer to the tool itself or to a call of a turn inside it; the tool is then run again.
 */
export type Decision = InferUnion<"type", typeof decisionCases>;

export const decisionShape: Shape<Decision> = variant("type", decisionCases);

/** The wait of a question that a handler asked with `askAndResume`. Names of waits in nested turns contain a slash. */
export const handlerWait = "handler";

/** The answer to a question whose deadline has passed. */
export const deadlineAnswer = "(no answer arrived before the deadline)";

/**
 * Returns the arguments that a call runs with after a decision: those of the person, those that were shown, or those of
 * the call.
 */
export function decidedArguments(call: Pick<ToolCall, "arguments">, decision: Decision | null): JsonObject | null {
  if (decision === null || decision.type === "deny") return call.arguments;
  return decision.arguments ?? (decision.type === "approve" ? decision.prepared : null) ?? call.arguments;
}

/**
 * Hints for the user interface. `inner` is written by the library and holds arguments, which are data of the
 * conversation: they may contain what looks like a credential.
 */
export const waitOpts: Shape<JsonObject> = openObject<JsonObject & { readonly inner?: Json }>({ inner: json });

const shownCallFields = {
  /** The name of the tool. */
  name: required(string),
  /** The arguments, as the `beforeTool` hook left them; `null`: the model sent no JSON object. */
  arguments: fallback(nullable(jsonObject), null),
  /**
   * The names of the tools whose child turns lead to the call, outermost first. Empty: the model of the session made
   * the call.
   */
  parents: fallback(array(string), []),
  /**
   * What a crash while the tool runs leads to; `null`: not known (a manual tool, a question, or a call stored by an
   * older release).
   */
  replay: fallback(nullable(oneOf<ReplayPolicy>(replayPolicies)), null),
};

/**
 * What a pending call runs if it is approved: for a call of a child agent the innermost call, otherwise the call of the
 * model itself. Interfaces show all of it to the person who decides (A3).
 */
export type ShownCall = Infer<typeof shownCallFields>;

export const shownCallShape: Shape<ShownCall> = object(shownCallFields);

const pendingFields = {
  /** Why the call waits. It determines which answers are accepted. */
  reason: fallback(oneOf<PendingReason>(pendingReasons), "manual"),
  /** The question of the tool, if the reason is `question`. */
  question: fallback(nullable(string), null),
  /** How the answer to a question reaches the model. The default is `user_message`. */
  answerAs: fallback(oneOf<AnswerForm>(answerForms), "user_message"),
  /** Hints for the user interface that shows the question or the approval. */
  opts: fallback(waitOpts, emptyObject),
  /** The recorded decision. A decided call stays pending until its result is in the thread (Q4). */
  decision: fallback(nullable(decisionShape), null),
  /** The idempotency key of the call: the same on every attempt, and unique beyond the reply, unlike the id. */
  idempotencyKey: fallback(nullable(string), null),
  /** The code cell that made the call. The answer goes to the cell and not into the thread. */
  cellId: fallback(nullable(string), null),
  /**
   * For a tool that runs a turn of its own: the call ids on the path down to the nested call that waits. For a tool
   * that asked with `askAndResume`: the id of the call itself. Empty: the answer is not passed to the tool.
   */
  path: fallback(array(string), []),
  /** What runs if the call is approved. Everything that a person must see before deciding. */
  shown: required(shownCallShape),
  /**
   * Identifies this wait and what is shown for it. Send it with a decision: if the call has changed meanwhile, the
   * decision is refused.
   */
  digest: required(string),
};

/** A tool call that waits for a result, an answer or a decision. `reason` determines which of them is accepted. */
export type PendingToolCall = ToolCall & Infer<typeof pendingFields>;

type PartialPendingCall = Omit<PendingToolCall, "shown" | "digest"> & { readonly shown: ShownCall | null };

/** Returns the pending call with what is shown for it and the digest. `shown` is kept if it is given. */
export function withDigest({ shown: given, ...call }: PartialPendingCall): PendingToolCall {
  const shown = given ?? impliedShown(call);
  return { ...call, shown, digest: callDigest(call, shown) };
}

// Older releases stored neither what is shown nor a digest.
export const pendingToolCallShape: Shape<PendingToolCall> = derived(
  object({
    ...toolCallFields,
    ...pendingFields,
    shown: fallback(nullable(shownCallShape), null),
    digest: fallback(nullable(string), null),
  }),
  withDigest,
);

/** What is shown for a call that was stored without it. `opts.inner` has name and arguments of the innermost call. */
function impliedShown({ name, arguments: args, path, opts }: Omit<PendingToolCall, "shown" | "digest">): ShownCall {
  const inner = opts["inner"];
  if (path.length > 0 && isPlainObject(inner) && typeof inner["name"] === "string") {
    const innerArguments = inner["arguments"];
    const shownArguments = isPlainObject(innerArguments) ? innerArguments : null;
    return { name: inner["name"], arguments: shownArguments, parents: [name], replay: null };
  }
  return { name, arguments: args, parents: [], replay: null };
}

/** The parts of what is shown, by the names that {@link changedParts} reports. */
const shownParts = ["tool", "arguments", "path", "policy", "wait"] as const;

/**
 * A part of a pending call that a digest covers. `wait`: which wait it is (its call, its reason), although it may show
 * the same.
 */
export type ShownPart = (typeof shownParts)[number];

/**
 * The number of hex digits that the digest has for each part, so that a refusal can name the part. The first 64 digits
 * cover all of them.
 */
const partDigits = 4;

/**
 * The digest: SHA-256 of the canonical JSON of all parts, followed by the first digits of the SHA-256 of each part.
 *
 * The wait is a part: call ids repeat, and a second call with the same arguments is another payment.
 */
function callDigest(
  { id, reason, idempotencyKey, rawArguments, opts }: Omit<PendingToolCall, "shown" | "digest">,
  { name, arguments: args, parents, replay }: ShownCall,
): string {
  const inner = opts["inner"];
  const innerWait = isPlainObject(inner) && typeof inner["wait"] === "string" ? inner["wait"] : null;
  const parts: { readonly [P in ShownPart]: Json } = {
    tool: name,
    arguments: args ?? rawArguments,
    path: parents,
    policy: replay,
    wait: [id, reason, idempotencyKey, innerWait],
  };
  return sha256Text(canonicalJson(parts)) + shownParts.map((part) => digitsOf(parts[part])).join("");
}

function digitsOf(value: Json): string {
  return sha256Text(canonicalJson(value)).slice(0, partDigits);
}

/**
 * Whether a digest was computed for a call of the model itself (not of a child agent) with other arguments than these:
 * a person has edited them. One edit of 65,536 is not recognised, because the digest has 16 bits of the arguments.
 */
export function isEdited(digest: string, args: Json): boolean {
  const digits = (part: ShownPart) => digitsOfPart(digest, shownParts.indexOf(part));
  return digits("path") === digitsOf([]) && digits("arguments") !== digitsOf(args);
}

/**
 * Names the parts of a call that differ from those a digest was computed for. Empty: the digest is that of the call.
 */
export function changedParts({ digest }: PendingToolCall, presented: string): readonly ShownPart[] {
  if (presented === digest) return [];
  const changed = shownParts.filter((_, index) => digitsOfPart(digest, index) !== digitsOfPart(presented, index));
  return changed.length > 0 ? changed : shownParts;
}

function digitsOfPart(digest: string, index: number): string {
  return digest.slice(64 + index * partDigits).slice(0, partDigits);
}

/** The loose form of a pending call: fields with a default are optional. */
export type PendingToolCallInput = ToolCallInput & Partial<PendingToolCall>;
