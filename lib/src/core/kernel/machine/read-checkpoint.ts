// Reads the checkpoint of a machine (`TurnMachine.restore`), which may come from an older release or from outside the
// program.
//
// A field that has a neutral value gets it; a field without one is required. Only the fields of the turn and of its
// policy are checked, not their content: `TurnMachine.checkpoint` writes them, and reading all of the history would
// cost its length.

import type { TurnProtocol } from "../protocol/protocol.ts";
import type { MachineCheckpoint } from "./machine.ts";
import type { Phase, Turn } from "./turn.ts";

import { invalidArgument, noUsage, wholeHistory } from "../../model/internal.ts";
import { isPlainObject } from "../../model/parse/reading.ts";
import { emptyList } from "../history/shared-list.ts";

/**
 * Reads the stored checkpoint of a {@link TurnMachine}, for example after `JSON.parse`. A field that the checkpoint of
 * an older release lacks has its default. Throws `MisuseError` (`invalid_argument`), which names the field, if one
 * without a default is missing. The content of history, records and phase is not checked: `TurnMachine.checkpoint`
 * writes them.
 */
export function readCheckpoint<P extends TurnProtocol = TurnProtocol>(stored: unknown): MachineCheckpoint<P> {
  if (!isCheckpoint<P>(stored)) throw refusal("turn");
  const turn: Turn<P> = { ...turnDefaults, ...stored.turn };
  return { turn: { ...turn, policy: { ...policyDefaults, ...turn.policy } }, notices: stored.notices ?? [] };
}

/** The fields of a turn that have no neutral value. All others are in `turnDefaults`; the compiler checks it. */
type RequiredField =
  | "turnId"
  | "policy"
  | "history"
  | "reported"
  | "step"
  | "environment"
  | "environmentDigest"
  | "phase";

const turnDefaults = {
  // Turns without the field were started under the first revision.
  revision: 1,
  transient: emptyList,
  events: emptyList,
  reportedEvents: 0,
  turnCauses: [],
  runOffset: 0,
  syncedStep: null,
  approved: [],
  resumes: null,
  usage: noUsage,
  stepUsage: noUsage,
  openReply: null,
  answered: [],
  graceTurn: false,
  deferredInput: null,
  contextWindow: wholeHistory,
  overflowed: false,
  finalize: null,
} satisfies Omit<Turn, RequiredField>;

const policyDefaults = {
  syncEnvironment: false,
  maxTurns: null,
  maxContextTokens: null,
  context: null,
  turnLimitFinalMessage: null,
  structuredFinalize: null,
  autonomous: false,
  stopAfter: null,
  startCheckpoint: false,
} satisfies Omit<Turn["policy"], "termination">;

const phases: { readonly [Type in Phase["type"]]: true } = {
  awaiting_environment: true,
  awaiting_model: true,
  awaiting_count: true,
  awaiting_compaction: true,
  awaiting_tools: true,
  awaiting_code: true,
  awaiting_checkpoint: true,
  ended: true,
};

/** The fields of a turn without a default, each with the check of its value. */
const requiredFields: { readonly [Field in RequiredField]: (value: unknown) => boolean } = {
  turnId: isText,
  policy: isPlainObject,
  history: (value) => isPlainObject(value) && Array.isArray(value["entries"]) && isText(value["digest"]),
  reported: isCount,
  step: isCount,
  environment: isPlainObject,
  environmentDigest: isText,
  phase: (value) => isPlainObject(value) && isText(value["type"]) && Object.hasOwn(phases, value["type"]),
};

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isCount(value: unknown): boolean {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/**
 * Is this a checkpoint? Throws `MisuseError` for the first field of its turn that is missing or has a value that the
 * machine does not write.
 */
function isCheckpoint<P extends TurnProtocol>(stored: unknown): stored is MachineCheckpoint<P> {
  const turn = isPlainObject(stored) ? stored["turn"] : undefined;
  if (!isPlainObject(turn)) return false;
  for (const [field, isValid] of Object.entries(requiredFields)) {
    if (!isValid(turn[field])) throw refusal("turn", field);
  }
  return true;
}

function refusal(...path: readonly string[]): Error {
  const message = `TurnMachine.restore: ${path.join(".")} is missing, or is not what machine.checkpoint() returns`;
  return invalidArgument(message, path);
}
