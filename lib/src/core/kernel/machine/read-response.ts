// Reads recorded responses (journal rows) back from JSON. A field that an older release did not write gets its default (S1); any other value
// of the wrong shape is rejected with the path of every issue.

import type { IssueCode, Result, SuspendedCell, ValidationFailure } from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";
import type { TurnCause } from "../history/turn-cause.ts";
import type {
  CellFinish,
  CheckpointDelivery,
  EffectResponse,
  LlmCallError,
  MiddlewareNote,
  Verdict,
} from "./effect.ts";

import { MisuseError, noUsage, renderIssue, validationFailure } from "../../model/internal.ts";
import {
  array,
  boolean,
  budgets,
  cancelEvidenceShape,
  environmentShape,
  failed,
  failureShape,
  fallback,
  issueShape,
  json,
  jsonObject,
  messageShape,
  modelNameShape,
  nullable,
  number,
  object,
  ok,
  oneOf,
  oneOfOr,
  optional,
  originShape,
  pendingReasons,
  read,
  replyShape,
  required,
  shownCallShape,
  string,
  toolAnswerFields,
  toolCallShape,
  toolOutcomeShape,
  usageShape,
  variant,
  waitOpts,
} from "../../model/parse/reading.ts";
import { llmTerminalReasons } from "../protocol/terminal-reason.ts";

/** Reads a recorded effect response from JSON. Fields that older releases did not write get their defaults. */
export function readResponse(input: unknown): Result<EffectResponse, ValidationFailure> {
  const result = read(responseShape, input);
  if ("value" in result) return ok(result.value);
  return failed(validationFailure("invalid_data", { issues: result.issues, metadata: { type: "response" } }));
}

/**
 * The response with the defaults of fields that an older release did not write. Throws `MisuseError` with the path of the first field that has another
 * shape. Data that only cannot be stored, such as arguments nested too deeply, pass: the machine reduces them (`storableReply`).
 */
export function completeResponse(response: EffectResponse): EffectResponse {
  const result = readResponse(response);
  if (result.ok) return result.value;
  const wrong = result.failure.issues.find(({ code }) => !isAboutStorage.has(code));
  if (wrong === undefined) return response;
  const message = `handleResponse: the response ${response.type} to ${response.id}: ${renderIssue(wrong)}`;
  throw new MisuseError("invalid_argument", message, { path: wrong.path });
}

/** Issues of values that have the right type and cannot be stored. */
export const isAboutStorage: ReadonlySet<IssueCode> = new Set<IssueCode>([
  "not_json",
  "cycle",
  "credential",
  "too_deep",
  "too_large",
]);

type Of<Type extends EffectResponse["type"]> = Extract<EffectResponse, { readonly type: Type }>;

const durationMs = fallback(number, 0);
const spent = fallback(usageShape, noUsage);
const middleware = optional(
  array(
    object<MiddlewareNote>({
      name: required(string),
      attempt: fallback(number, 1),
      action: required(string),
      details: fallback(jsonObject, {}),
    }),
  ),
);
const executorShape = object<SuspendedCell["executor"]>({ name: required(string), version: required(string) });

/** A missing terminal reason, and one that this release does not know, is read as `unknown`. */
const llmCallErrorShape: Shape<LlmCallError> = object<LlmCallError>({
  failure: required(failureShape),
  terminalReason: fallback(oneOfOr(llmTerminalReasons, "unknown"), "unknown"),
  requestBody: fallback(nullable(string), null),
  partial: fallback(nullable(replyShape), null),
});

/** How a turn cause is read. The runtime stores causes in its inbox as well. */
export const turnCauseShape: Shape<TurnCause> = object<TurnCause>({
  id: required(string),
  eventType: required(string),
  origin: required(originShape),
  text: required(string),
});

const deliveryShape: Shape<CheckpointDelivery> = object<CheckpointDelivery>({
  messages: fallback(array(messageShape), []),
  transientMessages: fallback(array(messageShape), []),
  turnCauses: fallback(array(turnCauseShape), []),
  inputs: fallback(array(string), []),
});

const verdictShape: Shape<Verdict> = variant<Verdict, "type">("type", {
  go_on: object<Extract<Verdict, { type: "go_on" }>>({ type: required(oneOf(["go_on"])) }),
  halt_when: object<Extract<Verdict, { type: "halt_when" }>>({ type: required(oneOf(["halt_when"])) }),
  abort: object<Extract<Verdict, { type: "abort" }>>({
    type: required(oneOf(["abort"])),
    evidence: required(cancelEvidenceShape),
  }),
  budget: object<Extract<Verdict, { type: "budget" }>>({
    type: required(oneOf(["budget"])),
    budget: required(oneOf(budgets)),
  }),
});

const finishShape: Shape<CellFinish> = variant<CellFinish, "type">("type", {
  value: object<Extract<CellFinish, { type: "value" }>>({
    type: required(oneOf(["value"])),
    value: required(json),
    issues: fallback(array(issueShape), []),
  }),
  error: object<Extract<CellFinish, { type: "error" }>>({ type: required(oneOf(["error"])), value: required(json) }),
});

const responseShape: Shape<EffectResponse> = variant<EffectResponse, "type">("type", {
  environment_synced: object<Of<"environment_synced">>({
    type: required(oneOf(["environment_synced"])),
    id: required(string),
    environment: fallback(nullable(environmentShape), null),
  }),
  environment_failed: object<Of<"environment_failed">>({
    type: required(oneOf(["environment_failed"])),
    id: required(string),
    message: required(string),
  }),
  model_replied: object<Of<"model_replied">>({
    type: required(oneOf(["model_replied"])),
    id: required(string),
    reply: required(replyShape),
    model: fallback(nullable(modelNameShape), null),
    requestBody: fallback(nullable(string), null),
    spent,
    durationMs,
    middleware,
  }),
  model_failed: object<Of<"model_failed">>({
    type: required(oneOf(["model_failed"])),
    id: required(string),
    error: required(llmCallErrorShape),
    spent,
    durationMs,
    middleware,
  }),
  tool_returned: object<Of<"tool_returned">>({
    type: required(oneOf(["tool_returned"])),
    id: required(string),
    outcome: required(toolOutcomeShape),
    content: toolAnswerFields.content,
    ranArguments: fallback(nullable(jsonObject), null),
    stops: fallback(boolean, false),
    spent,
    durationMs,
    middleware,
  }),
  tool_waits: object<Of<"tool_waits">>({
    type: required(oneOf(["tool_waits"])),
    id: required(string),
    reason: required(oneOf(pendingReasons)),
    question: fallback(nullable(string), null),
    opts: fallback(waitOpts, {}),
    path: fallback(array(string), []),
    shown: fallback(nullable(shownCallShape), null),
    spent,
  }),
  code_finished: object<Of<"code_finished">>({
    type: required(oneOf(["code_finished"])),
    id: required(string),
    observations: fallback(array(string), []),
    error: fallback(nullable(string), null),
    finish: fallback(nullable(finishShape), null),
    durationMs,
  }),
  code_calls: object<Of<"code_calls">>({
    type: required(oneOf(["code_calls"])),
    id: required(string),
    calls: required(array(toolCallShape)),
    executor: required(executorShape),
    ranMs: fallback(number, 0),
    durationMs,
  }),
  code_failed: object<Of<"code_failed">>({
    type: required(oneOf(["code_failed"])),
    id: required(string),
    reason: fallback(oneOf(["failed", "limit_exceeded", "diverged"]), "failed"),
    message: required(string),
    durationMs,
  }),
  checkpoint_delivered: object<Of<"checkpoint_delivered">>({
    type: required(oneOf(["checkpoint_delivered"])),
    id: required(string),
    delivery: required(deliveryShape),
    verdict: required(verdictShape),
  }),
});
