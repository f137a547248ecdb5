// What the rows of the tables say. Every value carries the version of the release that wrote it, and any later release reads it (S1). What cannot
// be read is a `corrupt_row` that names the row, never a guess.

import type { CallAnswer, EffectResponse, TurnCause } from "../../kernel/internal.ts";
import type {
  CancelEvidence,
  Failure,
  HaltedReason,
  Json,
  JsonObject,
  Message,
  ModelReply,
  Result,
  Session,
  SuspendedCell,
  TurnEvent,
  TurnOutcome,
  TurnStatus,
  Usage,
  ValidationFailure,
} from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";
import type { JournalItem } from "../../run/internal.ts";
import type { Row } from "./storage.ts";
import type { TableName } from "./tables.ts";

import { kernelRevision, readResponse } from "../../kernel/internal.ts";
import { turnCauseShape } from "../../kernel/machine/read-response.ts";
import {
  MisuseError,
  noUsage,
  renderIssue,
  RuntimeError,
  storedVersion,
  validationFailure,
} from "../../model/internal.ts";
import {
  array,
  assistantMessageShape,
  boolean,
  cancelEvidenceShape,
  decisionShape,
  emptyObject,
  eventShape,
  failed,
  failureShape,
  fallback,
  isPlainObject,
  json,
  jsonObject,
  messageShape,
  nullable,
  number,
  object,
  ok,
  oneOf,
  outcomeShape,
  read,
  replyShape,
  required,
  sessionShape,
  string,
  suspendedCellShape,
  toolAnswerFields,
  toolCallShape,
  toolOutcomeShape,
  turnStatuses,
  usageShape,
  variant,
} from "../../model/parse/reading.ts";

/** The head of a session: everything but its messages, which are rows of their own. */
export type SessionHead = {
  /** With no message in its thread. */
  readonly session: Session<JsonObject>;
  /** How many messages it has, and a digest of them. */
  readonly length: number;
  readonly digest: string;
  /** The turn that is open; `null` when none is. */
  readonly turn: string | null;
  /** The newest turn that ended. */
  readonly lastTurn: string | null;
  /** The newest event that was told. */
  readonly sequence: number;
  readonly createdAt: number;
  readonly changedAt: number;
  /** Only that it was here is left of it. */
  readonly deleted: boolean;
};

/** What a turn was accepted with. */
export type TurnStart = {
  readonly verb: "chat" | "step";
  /** The name of its engine, and what was said to the verb. */
  readonly engine: string;
  readonly options: JsonObject;
  /** The kernel it began under (Q6). */
  readonly revision: number;
  /** How many messages of the session came before it, and their digest. */
  readonly base: number;
  readonly digest: string;
  /** What it is pinned to, by the digest of its content. */
  readonly pinned: string;
  readonly answers: readonly CallAnswer[];
  readonly cell: SuspendedCell | null;
  /** What was in the inbox when it was made of that. */
  readonly messages: readonly Message[];
  readonly turnCauses: readonly TurnCause[];
  readonly inputs: readonly string[];
  /** What the session had cost before. */
  readonly spentBefore: Usage;
  readonly acceptedAt: number;
};

/** How far a turn has got. */
export type TurnProgress = {
  readonly status: TurnStatus;
  /** Number of rows of its journal whose consequences are stored. */
  readonly committed: number;
  /** The newest event of the session. */
  readonly sequence: number;
  readonly step: number;
  /** What it came to, once it has ended. */
  readonly end: TurnSummary | null;
  /** Why it is parked. */
  readonly failure: Failure | null;
};

/** What a turn came to, without the messages it added. */
export type TurnSummary = {
  readonly haltedReason: HaltedReason;
  readonly outcome: TurnOutcome;
  readonly finalResponse: ModelReply | null;
  readonly steps: number;
  readonly usage: Usage;
  readonly metadata: JsonObject;
};

/** A row of the journal. */
export type JournalRow = {
  /** The effect an answer is for, as canonical JSON, and its hash; `null` for what answers none. */
  readonly effect: string | null;
  readonly hash: string | null;
  readonly item: JournalItem | StepRestarted;
  /** Who settled it, and at which try. */
  readonly epoch: number;
  readonly attempt: number;
};

/** Rows of a step from this ordinal on no longer count (Q14). */
type StepRestarted = { readonly type: "step_restarted"; readonly from: number; readonly step: number };

/** Something that was said while a turn ran, or that is to start one. */
export type InboxEntry = {
  readonly id: string;
  readonly input: InboxInput;
  readonly state: InputState;
  /** The turn that took it. */
  readonly turn: string | null;
  /** Who claimed it: void when somebody else has the session. */
  readonly epoch: number | null;
  readonly at: number;
};

type InputState = (typeof inputStates)[number];
/** What was taken in, or taken back, is no longer in the inbox: the row of what was accepted says what became of it. */
const inputStates = ["pending", "claimed"] as const;

/** A message for history, one for this turn only, or something that happened elsewhere. */
export type InboxInput =
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "transient"; readonly message: Message }
  | { readonly type: "cause"; readonly cause: TurnCause };

/** That a turn is to stop. */
type StoredCancel = { readonly evidence: CancelEvidence; readonly at: number };

/** An entry of the event log. */
export type StoredEvent = {
  readonly turn: string;
  /** The row of the journal that caused it, and its place among what that row caused. */
  readonly ordinal: number;
  readonly index: number;
  /** Which try at the effect it settles, if it settles one. */
  readonly settles: { readonly effectId: string; readonly epoch: number; readonly n: number } | null;
  readonly event: TurnEvent;
};

/** What was paid for. */
export type LedgerLine = {
  readonly source: "model" | "tool" | "cancelled";
  readonly model: string | null;
  readonly usage: Usage;
};

/** What was accepted under an id: the same content under the same id is accepted once. */
export type Accepted = {
  /** Of the content. */
  readonly digest: string;
  readonly state: "pending" | "taken" | "cancelled";
  /** The turn that took it. */
  readonly turn: string | null;
};

export type Deadline = { readonly turn: string; readonly onTimeout: "error_as_result" | "fail_turn" };

type Token = {
  readonly tenant: string;
  readonly session: string;
  readonly call: string;
  /** Of the call's name and arguments, which it was made for. */
  readonly digest: string;
  readonly answers: readonly ("result" | "approve" | "deny" | "answer")[];
  readonly usedAt: number | null;
};

type Of<T extends { readonly type: string }, Type extends T["type"]> = Extract<T, { readonly type: Type }>;

const headShape: Shape<SessionHead> = object<SessionHead>({
  session: required(sessionShape),
  length: required(number),
  digest: required(string),
  turn: fallback(nullable(string), null),
  lastTurn: fallback(nullable(string), null),
  sequence: fallback(number, 0),
  createdAt: fallback(number, 0),
  changedAt: fallback(number, 0),
  deleted: fallback(boolean, false),
});

const answerShape: Shape<CallAnswer> = variant<CallAnswer, "type">("type", {
  result: object<Of<CallAnswer, "result">>({
    type: required(oneOf(["result"])),
    call: required(toolCallShape),
    outcome: required(toolOutcomeShape),
    content: toolAnswerFields.content,
  }),
  decision: object<Of<CallAnswer, "decision">>({
    type: required(oneOf(["decision"])),
    call: required(toolCallShape),
    decision: required(decisionShape),
    idempotencyKey: fallback(nullable(string), null),
  }),
});

const startShape: Shape<TurnStart> = object<TurnStart>({
  verb: required(oneOf(["chat", "step"] as const)),
  engine: required(string),
  options: fallback(jsonObject, emptyObject),
  revision: fallback(number, kernelRevision),
  base: required(number),
  digest: required(string),
  pinned: required(string),
  answers: fallback(array(answerShape), []),
  cell: fallback(nullable(suspendedCellShape), null),
  messages: fallback(array(messageShape), []),
  turnCauses: fallback(array(turnCauseShape), []),
  inputs: fallback(array(string), []),
  spentBefore: fallback(usageShape, noUsage),
  acceptedAt: fallback(number, 0),
});

const summaryShape: Shape<TurnSummary> = object<TurnSummary>({
  haltedReason: required(string),
  outcome: required(outcomeShape),
  finalResponse: fallback(nullable(replyShape), null),
  steps: fallback(number, 0),
  usage: required(usageShape),
  metadata: fallback(jsonObject, emptyObject),
});

const progressShape: Shape<TurnProgress> = object<TurnProgress>({
  status: required(oneOf(turnStatuses)),
  committed: required(number),
  sequence: required(number),
  step: fallback(number, 0),
  end: fallback(nullable(summaryShape), null),
  failure: fallback(nullable(failureShape), null),
});

const responseShape: Shape<EffectResponse> = (input, reading) => {
  const found = readResponse(input);
  if (found.ok) return found.value;
  return reading.report("malformed", found.failure.message);
};

const itemShape: Shape<JournalRow["item"]> = variant<JournalRow["item"], "type">("type", {
  response: object<Of<JournalRow["item"], "response">>({
    type: required(oneOf(["response"])),
    response: required(responseShape),
  }),
  cancel: object<Of<JournalRow["item"], "cancel">>({
    type: required(oneOf(["cancel"])),
    cancellation: required(
      object<Of<JournalRow["item"], "cancel">["cancellation"]>({
        evidence: required(cancelEvidenceShape),
        received: fallback(nullable(assistantMessageShape), null),
        usage: required(usageShape),
      }),
    ),
  }),
  failure: object<Of<JournalRow["item"], "failure">>({
    type: required(oneOf(["failure"])),
    failure: required(failureShape),
  }),
  step_restarted: object<StepRestarted>({
    type: required(oneOf(["step_restarted"])),
    from: required(number),
    step: required(number),
  }),
});

const journalShape: Shape<JournalRow> = object<JournalRow>({
  effect: fallback(nullable(string), null),
  hash: fallback(nullable(string), null),
  item: required(itemShape),
  epoch: fallback(number, 0),
  attempt: fallback(number, 1),
});

const inboxShape: Shape<InboxEntry> = object<InboxEntry>({
  id: required(string),
  input: required(
    variant<InboxInput, "type">("type", {
      message: object<Of<InboxInput, "message">>({
        type: required(oneOf(["message"])),
        message: required(messageShape),
      }),
      transient: object<Of<InboxInput, "transient">>({
        type: required(oneOf(["transient"])),
        message: required(messageShape),
      }),
      cause: object<Of<InboxInput, "cause">>({ type: required(oneOf(["cause"])), cause: required(turnCauseShape) }),
    }),
  ),
  state: required(oneOf(inputStates)),
  turn: fallback(nullable(string), null),
  epoch: fallback(nullable(number), null),
  at: fallback(number, 0),
});

/** What the rows of these tables say, by table. The others are found by their keys alone. */
export type StoredValues = {
  readonly sessions: SessionHead;
  readonly entries: Message;
  readonly starts: TurnStart;
  readonly turns: TurnProgress;
  readonly contents: Json;
  readonly journal: JournalRow;
  readonly records: Json;
  readonly inbox: InboxEntry;
  readonly accepted: Accepted;
  readonly cancels: StoredCancel;
  readonly events: StoredEvent;
  readonly ledger: LedgerLine;
  readonly deadlines: Deadline;
  readonly tokens: Token;
  readonly open: OpenTurn;
  readonly leases: LeaseHolder;
  readonly pieces: Piece;
};

/** A turn that somebody has to drive. */
type OpenTurn = { readonly turn: string; readonly engine: string };

/** Who has a session. */
type LeaseHolder = { readonly owner: string };

/** What was heard of an attempt, for readers elsewhere: events in order, the deltas of a part run together. */
export type Piece = {
  readonly effectId: string;
  readonly epoch: number;
  readonly n: number;
  /** The event it comes behind. */
  readonly after: number;
  readonly items: readonly PieceItem[];
};

export type PieceItem = { readonly part: string | null; readonly offset: number; readonly event: TurnEvent };

const storedEventShape: Shape<StoredEvent> = object<StoredEvent>({
  turn: required(string),
  ordinal: required(number),
  index: required(number),
  settles: fallback(
    nullable(
      object<NonNullable<StoredEvent["settles"]>>({
        effectId: required(string),
        epoch: required(number),
        n: required(number),
      }),
    ),
    null,
  ),
  event: required(eventShape),
});

const shapes: { readonly [T in keyof StoredValues]: Shape<StoredValues[T]> } = {
  open: object<OpenTurn>({ turn: required(string), engine: required(string) }),
  leases: object<LeaseHolder>({ owner: required(string) }),
  pieces: object<Piece>({
    effectId: required(string),
    epoch: required(number),
    n: required(number),
    after: required(number),
    items: required(
      array(
        object<PieceItem>({
          part: fallback(nullable(string), null),
          offset: fallback(number, 0),
          event: required(eventShape),
        }),
      ),
    ),
  }),
  sessions: headShape,
  entries: messageShape,
  starts: startShape,
  turns: progressShape,
  contents: json,
  journal: journalShape,
  records: json,
  inbox: inboxShape,
  accepted: object<Accepted>({
    digest: required(string),
    state: required(oneOf(["pending", "taken", "cancelled"] as const)),
    turn: fallback(nullable(string), null),
  }),
  cancels: object<StoredCancel>({ evidence: required(cancelEvidenceShape), at: fallback(number, 0) }),
  events: storedEventShape,
  ledger: object<LedgerLine>({
    source: required(oneOf(["model", "tool", "cancelled"] as const)),
    model: fallback(nullable(string), null),
    usage: required(usageShape),
  }),
  deadlines: object<Deadline>({
    turn: required(string),
    onTimeout: fallback(oneOf(["error_as_result", "fail_turn"] as const), "error_as_result"),
  }),
  tokens: object<Token>({
    tenant: required(string),
    session: required(string),
    call: required(string),
    digest: required(string),
    answers: required(array(oneOf(["result", "approve", "deny", "answer"] as const))),
    usedAt: fallback(nullable(number), null),
  }),
};

/** The text a row is written as. */
export function writeValue<T extends keyof StoredValues>(table: T, value: StoredValues[T]): string {
  if (checkedTables.has(table)) checkReadable(table, value);
  return JSON.stringify({ version: storedVersion, data: value });
}

/** Small rows that hold what callers said, written once for each time they say something. The rows of a step are not among them: they are many. */
const checkedTables: ReadonlySet<TableName> = new Set<TableName>(["starts", "inbox", "cancels"]);

/** The same for the head that a verb writes. That of a boundary holds what was read, and what the library made of it. */
export function writeHead(head: SessionHead): string {
  checkReadable("sessions", head);
  return writeValue("sessions", head);
}

/** What could not be read again is not written: a row like that would be lost, and its session with it. */
function checkReadable<T extends keyof StoredValues>(table: T, value: StoredValues[T]): void {
  const found = read(shapes[table], value);
  if ("value" in found) return;
  const [first] = found.issues;
  const why = first === undefined ? "it does not fit" : renderIssue(first);
  throw new MisuseError("not_serializable", `what was to be stored in ${table} could not be read again: ${why}`, {
    path: [table, ...(first?.path ?? [])],
  });
}

/** What a row says. */
export function readValue<T extends keyof StoredValues>(table: T, row: Row): StoredValues[T] {
  const stored = parsed(row.value);
  if (stored === null) throw corrupt(table, row, "it is not a value this library wrote");
  if (stored.version > storedVersion) {
    throw new RuntimeError("newer_schema", {
      message: `${placeOf(table, row)} was written by a newer release (version ${stored.version}; this one reads up to ${storedVersion}): deploy that release, or a newer one, here too`,
    });
  }
  const found = read(shapes[table], upgraded(table, stored));
  if ("value" in found) return found.value;
  const [first] = found.issues;
  throw corrupt(table, row, first === undefined ? "it does not fit" : `${first.path.join(".")}: ${first.code}`);
}

/**
 * The value of a row in the form of the current version. Up to version 3 the row of a turn counted published journal rows, because the event log could
 * be in another storage; every event is now written with the journal row that caused it.
 */
function upgraded(table: TableName, { version, data }: { readonly version: number; readonly data: unknown }): unknown {
  if (table !== "turns" || version > 3 || !isPlainObject(data)) return data;
  const { published: _, ...rest } = data;
  return rest;
}

/** What can be told of the head of a session also where it cannot be read: when it last changed, and its newest event. */
export function remainsOf({ value }: Row): Pick<SessionHead, "changedAt" | "sequence"> | null {
  const data = parsed(value)?.data;
  const [changedAt, sequence] = isPlainObject(data) ? [data["changedAt"], data["sequence"]] : [];
  return Number.isSafeInteger(changedAt) && Number.isSafeInteger(sequence)
    ? { changedAt: Number(changedAt), sequence: Number(sequence) }
    : null;
}

/** What a value says that is not in a row: part of something that was exported. */
export function readPart<T extends keyof StoredValues>(
  table: T,
  data: unknown,
): Result<StoredValues[T], ValidationFailure> {
  const found = read(shapes[table], data);
  if ("value" in found) return ok(found.value);
  return failed(validationFailure("invalid_data", { issues: found.issues, metadata: { table } }));
}

/** The envelope of a value; `null` when there is none. */
function parsed(text: string): { readonly version: number; readonly data: unknown } | null {
  try {
    const value: unknown = JSON.parse(text);
    if (!isPlainObject(value)) return null;
    const { version, data } = value;
    return typeof version === "number" && data !== undefined ? { version, data } : null;
  } catch {
    return null;
  }
}

/** Says where, and what kind of thing is wrong; never what the row holds, which may be anybody's. */
function corrupt(table: TableName, row: Row, what: string): RuntimeError {
  return new RuntimeError("corrupt_row", {
    message: `${placeOf(table, row)} cannot be read (${what}); restore it from a backup, or delete the session it belongs to`,
    metadata: { table, key: [...row.key] },
  });
}

function placeOf(table: TableName, { key }: Row): string {
  return `the row ${key.map((part) => JSON.stringify(part)).join(", ")} of ${table}`;
}
