// `everturn show`: prints turns of a session as timelines or JSON, or exports the record of a turn to a file.

import type { CommandContext } from "./context.ts";
import type { LocatedSession } from "./id-prefix.ts";
import type { TurnTimeline } from "everturn/client";
import type { Inspection } from "everturn/http";
import type { Runtime, SessionView } from "everturn/runtime";

import { resolve } from "node:path";

import { inspection, readTurnRecord } from "everturn/http";

import { writePrivateFile } from "../private-file.ts";
import { safeLine, safeJson } from "../terminal/safe-text.ts";
import { tenantOf, UsageError, withSessions } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { ambiguousText, findId, locateSession } from "./id-prefix.ts";
import { tenantFlag, waitingLines } from "./pending-call.ts";
import { brief, plural, spent, shellQuote } from "./text.ts";
import { inputTexts, timelineText } from "./timeline-text.ts";

export type ShowRequest = {
  /** The id of the session, or its beginning. */
  readonly id: string;
  /** The id of the turn, or its beginning; `null`: the newest. */
  readonly turn: string | null;
  readonly all: boolean;
  readonly json: boolean;
  readonly exportTo: string | null;
};

export async function show(context: CommandContext, request: ShowRequest): Promise<number> {
  return withSessions(context, async (all) => {
    const { id, sessions, tenant } = await locateSession(all, request.id, tenantOf(context));
    const view = await sessions.get(id, { messages: 1 });
    if (view === null) throw new UsageError(`session ${JSON.stringify(id)} has been deleted`);
    const turnIds = new Set<string>();
    for await (const { turnId } of sessions.events(id, { follow: false })) turnIds.add(turnId);
    const turns = [...turnIds];
    const turn = request.turn === null ? null : turnNamed(turns, request.turn);
    if (request.exportTo !== null) return exportRecord(context, sessions, { id, turn }, request.exportTo);
    const shown = request.all ? turns : [turn ?? turns.at(-1)].filter((turnId) => turnId !== undefined);
    const reader = inspection(sessions.source);
    const shownTurns = await Promise.all(
      shown.map(async (turnId) => {
        return { timeline: await wholeTimeline(reader, id, turnId), record: await reader.export(id, turnId) };
      }),
    );
    const usage = await sessions.usage(id);
    if (request.json) {
      const { session, version, length, openTurn, forkedFrom } = view;
      const { thread: _, ...head } = session;
      const timelines = shownTurns.map(({ timeline, record }) => {
        return { ...timeline, input: inputTexts(record), details: readTurnRecord(record).details };
      });
      context.say(safeJson({ session: { ...head, version, length, openTurn, forkedFrom }, turns, timelines, usage }));
      return exitCodes.ok;
    }
    for (const line of headLines(view, { id, tenant }, spent(usage.total))) context.say(line);
    for (const turn of shownTurns) {
      context.say();
      for (const line of timelineText(turn, context.out, context.io.stdout.columns)) context.say(line);
    }
    const others = turns.length - shownTurns.length;
    if (others > 0)
      context.note(`${plural(others, "other turn")}: everturn show ${shellQuote(id)}${tenantFlag(tenant)} --all`);
    return exitCodes.ok;
  });
}

/** All pages of the timeline of a turn. */
async function wholeTimeline(reader: Inspection, id: string, turnId: string): Promise<TurnTimeline> {
  let timeline = await reader.timeline(id, turnId);
  while (timeline.next !== null) {
    const page = await reader.timeline(id, turnId, { after: timeline.next });
    const claims = new Map([...timeline.claims, ...page.claims].map((claim) => [claim.epoch, claim]));
    timeline = { ...page, claims: [...claims.values()], effects: [...timeline.effects, ...page.effects] };
  }
  return timeline;
}

/** The turn with this id or prefix. A turn without events is left to `export`, which reports it. */
function turnNamed(turns: readonly string[], text: string): string {
  const match = findId(turns, text);
  if (match.type === "ambiguous") throw new UsageError(ambiguousText("turns", text, match.ids));
  return match.type === "found" ? match.id : text;
}

async function exportRecord(
  { io, say, note }: CommandContext,
  sessions: Runtime,
  { id, turn }: Pick<ShowRequest, "id" | "turn">,
  to: string,
): Promise<number> {
  const record = await inspection(sessions.source).export(id, turn ?? undefined);
  await sessions.exported(id, record.data.turnId);
  const text = safeJson(record, 2);
  if (to === "-") {
    say(text);
    return exitCodes.ok;
  }
  const path = resolve(io.folder, to);
  try {
    writePrivateFile(path, `${text}\n`);
  } catch (cause) {
    throw new UsageError(`--export: cannot write ${path}`, { cause });
  }
  note(`wrote ${record.data.turnId} to ${path}; everturn replay ${shellQuote(to)} replays it`);
  return exitCodes.ok;
}

/** The status of the session, its open turn, and what it waits for. */
function headLines(
  { session, length, openTurn, forkedFrom }: SessionView,
  { id, tenant }: Pick<LocatedSession, "id" | "tenant">,
  cost: string,
): readonly string[] {
  const named = `${shellQuote(id)}${tenantFlag(tenant)}`;
  const facts = [openTurn?.status ?? session.status, plural(length, "message"), ...(cost === "" ? [] : [cost])];
  const limit = openTurn?.limitWait?.limit;
  const waits = limit === undefined ? "" : `, waits for the limit of its ${limit}`;
  const open =
    openTurn === null ? [] : [`  open: ${openTurn.turnId} (${openTurn.status}, step ${openTurn.step + 1}${waits})`];
  const failure = openTurn?.failure ?? null;
  const parked =
    failure === null
      ? []
      : [
          `  parked: ${failure.reason}: ${brief(failure.message, 300)}`,
          `  restart its step: everturn recover ${named} --from-step`,
          `  end the turn: everturn recover ${named}`,
        ];
  const failed = openTurn === null && session.status === "error" ? [`  make it usable: everturn recover ${named}`] : [];
  const asks = session.pendingQuestion === null ? [] : [`  asks: ${brief(session.pendingQuestion, 300)}`];
  const calls = waitingLines(id, session.pendingToolCalls, tenant);
  const fork =
    forkedFrom === null ? [] : [`  forked from ${safeLine(forkedFrom.sessionId)} at message ${forkedFrom.at}`];
  const { frame = null, requested = null } = session.contextWindow ?? {};
  const framed =
    frame === null
      ? []
      : [
          `  requests have ${frame.summary === null ? "nothing" : "a summary"} in place of the first ${plural(frame.to, "message")}: ${brief(frame.summary ?? "", 200)}`,
          `  undo it: everturn compact ${named} --undo`,
        ];
  const asked = requested === null ? [] : ["  the next turn begins with a summary of the older messages"];
  const owner = tenant === "" ? "" : ` of tenant ${safeLine(tenant)}`;
  return [
    `session ${safeLine(id)}${owner}  ${facts.join(" · ")}`,
    ...fork,
    ...open,
    ...parked,
    ...failed,
    ...asks,
    ...calls,
    ...framed,
    ...asked,
  ];
}
