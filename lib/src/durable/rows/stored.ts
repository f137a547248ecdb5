// Reads and writes the values of rows. A value is JSON: `{ version, data }`.
//
// Invariants
//   1. Every value carries the format version of the release that wrote it, and any later release reads it (S1). `upgraded` converts older
//      versions; fields that were added later have a fallback.
//   2. A value of a newer version is `newer_schema`, never read as far as possible: dropping unknown fields would lose data on the next write.
//   3. A value that cannot be read is a `corrupt_row` that names the row and never quotes its content.

import type { CallAnswer, EffectResponse } from "../../core/kernel/internal.ts";
import type { Result, TurnStatus, ValidationFailure } from "../../core/model/internal.ts";
import type { Shape } from "../../core/model/parse/reading.ts";
import type { Rollup, RollupOutcomes, RollupSum, RollupTool } from "./rollup.ts";
import type { Row } from "./storage.ts";
import type { TableName } from "./tables.ts";
import type {
  Accepted,
  AdmittedTurn,
  Deadline,
  EffectTiming,
  InboxEntry,
  InboxInput,
  JournalRow,
  LeaseHolder,
  LedgerLine,
  LimitedTurn,
  OpenTurn,
  OwnTurn,
  Piece,
  PieceItem,
  SessionHead,
  Slot,
  SlotHolder,
  StepRestarted,
  StoredCancel,
  StoredEvent,
  StoredValues,
  Token,
  TurnLimit,
  TurnProgress,
  TurnStart,
  TurnSummary,
  WaitingTurn,
} from "./values.ts";

import { readResponse } from "../../core/kernel/internal.ts";
import {
  MisuseError,
  noUsage,
  renderIssue,
  RuntimeError,
  storedVersion,
  validationFailure,
} from "../../core/model/internal.ts";
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
  settings,
  string,
  suspendedCellShape,
  toolAnswerFields,
  toolCallShape,
  toolOutcomeShape,
  turnCauseShape,
  turnStatuses,
  usageShape,
  variant,
} from "../../core/model/parse/reading.ts";
import { hasReferences, parsedValue } from "./large-values.ts";
import { attentions, inputStates } from "./values.ts";

type Of<T extends { readonly type: string }, Type extends T["type"]> = Extract<T, { readonly type: Type }>;

/** The shape of the session row. A field with `fallback` may be absent in rows of older releases. */
const headShape: Shape<SessionHead> = object<SessionHead>({
  session: required(sessionShape),
  engine: fallback(nullable(string), null),
  owner: fallback(nullable(string), null),
  startedBy: fallback(array(string), []),
  length: required(number),
  digest: required(string),
  turn: fallback(nullable(string), null),
  lastTurn: fallback(nullable(string), null),
  sequence: fallback(number, 0),
  createdAt: fallback(number, 0),
  changedAt: fallback(number, 0),
  title: fallback(nullable(string), null),
  attention: fallback(nullable(oneOf([...attentions, "unknown"] as const)), "unknown"),
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

/** The kernel revision of start rows without the field: they were written before there was a second revision. */
const firstRevision = 1;

const startShape: Shape<TurnStart> = object<TurnStart>({
  verb: required(oneOf(["chat", "step"] as const)),
  engine: required(string),
  options: fallback(jsonObject, emptyObject),
  context: fallback(nullable(settings), null),
  startedBy: fallback(array(string), []),
  revision: fallback(number, firstRevision),
  base: required(number),
  digest: required(string),
  pinned: required(string),
  answers: fallback(array(answerShape), []),
  cell: fallback(nullable(suspendedCellShape), null),
  messages: fallback(array(messageShape), []),
  turnCauses: fallback(array(turnCauseShape), []),
  inputs: fallback(array(string), []),
  protocolEvents: fallback(number, 0),
  spentBefore: fallback(usageShape, noUsage),
  acceptedAt: fallback(number, 0),
  trace: fallback(nullable(jsonObject), null),
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
  status: required(oneOf<TurnStatus>(turnStatuses)),
  committed: required(number),
  sequence: required(number),
  step: fallback(number, 0),
  takeovers: fallback(number, 0),
  discarded: fallback(number, 0),
  end: fallback(nullable(summaryShape), null),
  failure: fallback(nullable(failureShape), null),
});

const responseShape: Shape<EffectResponse> = (input, reading) => {
  const result = readResponse(input);
  if (result.ok) return result.value;
  return reading.report("malformed", result.failure.message);
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

const timingShape: Shape<EffectTiming> = object<EffectTiming>({
  startedAt: required(number),
  firstAt: fallback(nullable(number), null),
  endedAt: required(number),
  owner: required(string),
  heldSince: required(number),
  takesOver: required(boolean),
});

const journalShape: Shape<JournalRow> = object<JournalRow>({
  effect: fallback(nullable(string), null),
  hash: fallback(nullable(string), null),
  item: required(itemShape),
  epoch: fallback(number, 0),
  attempt: fallback(number, 1),
  timing: fallback(nullable(timingShape), null),
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
  ownTurn: fallback(
    nullable(
      object<OwnTurn>({
        id: required(string),
        engine: required(string),
        options: required(jsonObject),
        context: fallback(nullable(settings), null),
        startedBy: fallback(array(string), []),
        interrupts: required(boolean),
        trace: fallback(nullable(jsonObject), null),
        pinned: fallback(nullable(json), null),
      }),
    ),
    null,
  ),
});

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

const limitShape: Shape<TurnLimit> = variant<TurnLimit, "type">("type", {
  admitted: object<AdmittedTurn>({
    type: required(oneOf(["admitted"])),
    slots: required(array(object<Slot>({ scope: required(string), number: required(number) }))),
  }),
  waiting: object<LimitedTurn>({
    type: required(oneOf(["waiting"])),
    scope: required(string),
    since: required(number),
  }),
});

const rollupSumShape: Shape<RollupSum> = object<RollupSum>({
  name: required(string),
  turns: required(number),
  outcomes: required(
    object<RollupOutcomes>({
      completed: fallback(number, 0),
      waiting: fallback(number, 0),
      failed: fallback(number, 0),
      cancelled: fallback(number, 0),
      parked: fallback(number, 0),
      limited: fallback(number, 0),
    }),
  ),
  inputTokens: fallback(number, 0),
  cachedInputTokens: fallback(number, 0),
  outputTokens: fallback(number, 0),
  nanoCost: fallback(number, 0),
  takeovers: fallback(number, 0),
  duration: fallback(array(number), []),
  firstContent: fallback(array(number), []),
});

const rollupShape: Shape<Rollup> = object<Rollup>({
  engines: required(array(rollupSumShape)),
  tools: fallback(
    array(
      object<RollupTool>({
        name: required(string),
        calls: required(number),
        failed: fallback(number, 0),
        duration: fallback(array(number), []),
      }),
    ),
    [],
  ),
  tenants: fallback(array(rollupSumShape), []),
});

/** The lease time of lease rows without the field: the default of the releases that wrote them. */
const leaseTimeMs = 30_000;

const shapes: { readonly [T in keyof StoredValues]: Shape<StoredValues[T]> } = {
  open: object<OpenTurn>({
    turn: required(string),
    engine: required(string),
    due: fallback(number, 0),
    limitKey: fallback(nullable(string), null),
    limit: fallback(nullable(limitShape), null),
  }),
  slots: object<SlotHolder>({ tenant: required(string), session: required(string), turn: required(string) }),
  waiting: object<WaitingTurn>({ turn: required(string) }),
  leases: object<LeaseHolder>({
    owner: required(string),
    ttlMs: fallback(number, leaseTimeMs),
    released: fallback(boolean, false),
    process: fallback(nullable(string), null),
    since: fallback(nullable(number), null),
    tookOverFrom: fallback(nullable(string), null),
    alone: fallback(boolean, false),
  }),
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
  rollup_lines: rollupShape,
  rollups: rollupShape,
};

/** Serialises a value. Throws `MisuseError` (`not_serializable`) for values of `checkedTables` that could not be read back. */
export function writeValue<T extends keyof StoredValues>(table: T, value: StoredValues[T]): string {
  if (checkedTables.has(table)) checkReadable(table, value);
  return JSON.stringify({ version: storedVersion, data: value });
}

/** Tables whose rows hold data of callers and are written once for each verb. Rows of a step are not checked: the check costs a full read. */
const checkedTables: ReadonlySet<TableName> = new Set<TableName>(["starts", "inbox", "cancels"]);

/**
 * Throws `MisuseError` if a value could not be read back after it is written: its session would be lost. Verbs check the session row they
 * write. Commits of a turn do not, because their session row holds only what was read and what the library computed.
 */
export function checkReadable<T extends keyof StoredValues>(table: T, value: StoredValues[T]): void {
  const result = read(shapes[table], value);
  if ("value" in result) return;
  const [first] = result.issues;
  const why = first === undefined ? "it has the wrong shape" : renderIssue(first);
  throw new MisuseError(
    "not_serializable",
    `a value for the table ${table} could not be read back after writing: ${why}`,
    {
      path: [table, ...(first?.path ?? [])],
    },
  );
}

/** Reads the value of a row. Throws `corrupt_row` or `newer_schema`. */
export function readValue<T extends keyof StoredValues>(table: T, row: Row): StoredValues[T] {
  const stored = parsed(row);
  if (stored === null) {
    throw corrupt(
      table,
      row,
      hasReferences(row) ? "a large text that it refers to is missing" : "it is not a value that this library wrote",
    );
  }
  if (stored.version > storedVersion) {
    throw new RuntimeError("newer_schema", {
      message: `${rowName(table, row)} was written by a newer release (format version ${stored.version}; this release reads versions up to ${storedVersion}): deploy that release or a newer one here too`,
    });
  }
  const result = read(shapes[table], upgraded(table, stored));
  if ("value" in result) return result.value;
  const [first] = result.issues;
  throw corrupt(table, row, first === undefined ? "it has the wrong shape" : `${first.path.join(".")}: ${first.code}`);
}

/**
 * Converts the value of a row to the current version. Up to version 3 the turn row counted published journal rows, because the event log
 * could be in another storage. Since version 4 every event is written with the journal row that caused it.
 */
function upgraded(table: TableName, { version, data }: { readonly version: number; readonly data: unknown }): unknown {
  if (table !== "turns" || version > 3 || !isPlainObject(data)) return data;
  const { published: _, ...current } = data;
  return current;
}

/** Salvages two fields of a session row that cannot be read, so that the session can be deleted; `null`: not even these. */
export function salvageHead(row: Row): Pick<SessionHead, "changedAt" | "sequence"> | null {
  const data = parsed(row)?.data;
  const [changedAt, sequence] = isPlainObject(data) ? [data["changedAt"], data["sequence"]] : [];
  return Number.isSafeInteger(changedAt) && Number.isSafeInteger(sequence)
    ? { changedAt: Number(changedAt), sequence: Number(sequence) }
    : null;
}

/** Reads a value that is not in a row but part of an exported turn. */
export function readPart<T extends keyof StoredValues>(
  table: T,
  data: unknown,
): Result<StoredValues[T], ValidationFailure> {
  const result = read(shapes[table], data);
  if ("value" in result) return ok(result.value);
  return failed(validationFailure("invalid_data", { issues: result.issues, metadata: { table } }));
}

/** Parses the envelope of the value of a row; `null`: the text has none. */
function parsed(row: Row): { readonly version: number; readonly data: unknown } | null {
  try {
    const value = parsedValue(row);
    if (!isPlainObject(value)) return null;
    const { version, data } = value;
    return typeof version === "number" && data !== undefined ? { version, data } : null;
  } catch {
    return null;
  }
}

/** The error of a row that cannot be read. It names the row and the kind of defect, never the content, which may be private. */
function corrupt(table: TableName, row: Row, what: string): RuntimeError {
  return new RuntimeError("corrupt_row", {
    message: `${rowName(table, row)} cannot be read (${what}); restore it from a backup, or delete the session it belongs to`,
    metadata: { table, key: [...row.key] },
  });
}

function rowName(table: TableName, { key }: Row): string {
  return `the row ${key.map((part) => JSON.stringify(part)).join(", ")} of ${table}`;
}
