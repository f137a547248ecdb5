// The part of the check before a deploy that concerns waiting calls: calls that a person may approve after the deploy.
// An approval of a call whose engine or tool is gone, or whose arguments the tool no longer accepts, is refused (Q8),
// so the person could only deny it.
//
// Sessions that wait are read from the index `attention`, in pages. Nothing is written, and no function of the program
// runs except the validation of arguments by the schema of a tool.

import type { PendingToolCall } from "../../core/model/internal.ts";
import type { RuntimeOptions } from "../drive/types.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { HostStorage, Query, Row } from "../rows/storage.ts";
import type { OpenTurnReplay } from "./replay-open.ts";

import { resolveTools } from "../../core/engine/internal.ts";
import { EngineError, MisuseError } from "../../core/model/internal.ts";
import { checkApprovable, isOpen } from "../../core/session/internal.ts";
import { readOne } from "../drive/context.ts";
import { forkedStart } from "../drive/session-rows.ts";
import { keyOf, turnKey } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";

/** How many waiting sessions are read at once. */
const pageSize = 64;

/** What a check needs. */
type Context = { readonly storage: HostStorage; readonly engines: RuntimeOptions["engines"] };

/** Checks every call that waits for a decision, or for an answer that is passed to its tool. */
export async function* checkWaitingCalls(context: Context): AsyncGenerator<OpenTurnReplay> {
  for await (const row of waitingRows(context.storage)) {
    const [tenant = "", , , session = ""] = row.key;
    yield* checkSession(context, { tenant: String(tenant), session: String(session) });
  }
}

async function* checkSession(context: Context, key: SessionKey): AsyncGenerator<OpenTurnReplay> {
  const row = await readOne(context.storage, { table: "sessions", prefix: keyOf(key) });
  const head = row === null ? null : readValue("sessions", row);
  // The session was answered or deleted since the index was read.
  if (head === null || head.deleted || head.turn !== null) return;
  const start = await readOne(context.storage, {
    table: "starts",
    prefix: turnKey(key, head.lastTurn ?? forkedStart),
  });
  const engine = (start === null ? null : readValue("starts", start).engine) ?? head.engine ?? "default";
  for (const call of head.session.pendingToolCalls) {
    if (!isOpen(call) || !runsAgain(call)) continue;
    const { id, shown } = call;
    const facts = {
      tenant: key.tenant,
      sessionId: key.session,
      turnId: head.lastTurn ?? "",
      engine,
      rows: 0,
      waitingCall: { id, name: shown.name, parents: shown.parents },
      paths: [],
    };
    yield { ...facts, ...(await checkCall(context, engine, call)) };
  }
}

/** Does the answer that a person gives make a tool run? */
function runsAgain({ reason, path }: PendingToolCall): boolean {
  return reason === "approval" || reason === "outcome_unknown" || path.length > 0;
}

async function checkCall(
  { engines }: Context,
  engine: string,
  call: PendingToolCall,
): Promise<Pick<OpenTurnReplay, "status" | "missing" | "message">> {
  const found = Object.hasOwn(engines, engine) ? engines[engine] : undefined;
  if (found === undefined) return { status: "missing", missing: [`engine ${engine}`], message: null };
  try {
    await checkApprovable(() => resolveTools(found, {}), call, null);
    return { status: "same", missing: [], message: null };
  } catch (error) {
    if (error instanceof EngineError && error.reason === "unknown_tool") {
      return { status: "missing", missing: [`tool ${String(error.failure.metadata["tool"])}`], message: null };
    }
    if (!(error instanceof MisuseError)) throw error;
    return { status: "invalid_arguments", missing: [], message: error.message };
  }
}

/** The rows of sessions that wait for a person, of all tenants. */
async function* waitingRows(storage: HostStorage): AsyncGenerator<Row> {
  let last: Row | null = null;
  for (;;) {
    const pages = await storage.read(queriesAfter(last));
    const rows = pages.flat().slice(0, pageSize);
    for (const row of rows) if (row.key[1] === "waiting") yield row;
    last = rows.at(-1) ?? null;
    if (last === null || rows.length < pageSize) return;
  }
}

/** The queries that together read the rows of `attention` after a row, in key order. */
function queriesAfter(last: Row | null): readonly Query[] {
  const page = { table: "attention", limit: pageSize } as const;
  if (last === null) return [{ ...page, prefix: [] }];
  return last.key.toReversed().map((after, index) => ({ ...page, prefix: last.key.slice(0, -1 - index), after }));
}
