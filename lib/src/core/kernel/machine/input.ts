// What a turn accepts, besides the messages it starts with: answers to pending calls at its start, then responses,
// cancels and failures of the driver. All of it is stored: answers in the start row, items in the journal.

import type { Infer, InferUnion, Shape } from "../../model/parse/reading.ts";

import {
  assistantMessageShape,
  cancelEvidenceShape,
  decisionShape,
  failureShape,
  fallback,
  nullable,
  object,
  required,
  string,
  toolAnswerFields,
  toolCallShape,
  toolOutcomeShape,
  usageShape,
  variant,
} from "../../model/parse/reading.ts";
import { responseShape } from "./response.ts";

const answerCases = {
  result: {
    call: required(toolCallShape),
    outcome: required(toolOutcomeShape),
    content: toolAnswerFields.content,
  },
  decision: {
    call: required(toolCallShape),
    decision: required(decisionShape),
    /** The idempotency key of an earlier attempt at the same call; `null` if there was none. */
    idempotencyKey: fallback(nullable(string), null),
  },
};

/** The answer to a pending call: its result (also the answer to its question), or a decision to approve or deny it. */
export type CallAnswer = InferUnion<"type", typeof answerCases>;

export const callAnswerShape: Shape<CallAnswer> = variant("type", answerCases);

const cancellationFields = {
  evidence: required(cancelEvidenceShape),
  received: fallback(nullable(assistantMessageShape), null),
  usage: required(usageShape),
};

/** A cancel request, with the part of the model reply that was received and its usage. */
export type Cancellation = Infer<typeof cancellationFields>;

const cancellationShape: Shape<Cancellation> = object(cancellationFields);

export const journalItems = {
  response: { response: required(responseShape) },
  cancel: { cancellation: required(cancellationShape) },
  failure: { failure: required(failureShape) },
};

/** What a turn accepts: a response, a cancel, or a failure of the driver. */
export type JournalItem = InferUnion<"type", typeof journalItems>;
