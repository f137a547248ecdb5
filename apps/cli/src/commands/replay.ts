// `everturn replay`: replays a recorded turn without calling a model or running a tool, and reports where the replay
// diverges from the record.

import type { CommandContext } from "./context.ts";
import type { Engine } from "everturn";

import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

import { createEngines, databaseName } from "@everturn/server";
import { MisuseError, RuntimeError } from "everturn";
import { inspection } from "everturn/http";
import { replayTurn } from "everturn/runtime";

import { safeJson } from "../terminal/safe-text.ts";
import { tenantOf, UsageError, withSessions } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { locateSession } from "./id-prefix.ts";
import { plural, spent } from "./text.ts";

export type ReplayRequest = {
  readonly source: string;
  readonly turn: string | null;
  /** Replay with the engine of the current settings in place of the recorded environment. */
  readonly engine: boolean;
  readonly json: boolean;
};

export async function replay(context: CommandContext, request: ReplayRequest): Promise<number> {
  const { say, out } = context;
  const record = await recordText(context, request);
  const engine = request.engine ? await currentEngine(context, record) : null;
  const compared = engine === null ? "with the recorded settings" : "with the current settings";
  try {
    const { result, events } = await replayTurn(record, engine === null ? {} : { engine });
    const steps = events.filter(({ type }) => type === "step_completed").length;
    const { haltedReason, usage } = result;
    if (request.json) say(safeJson({ same: true, haltedReason, steps, usage }));
    else {
      const cost = spent(usage);
      const facts = [
        haltedReason,
        plural(steps, "step"),
        ...(cost === "" ? [] : [`${cost} (recorded; the replay costs nothing)`]),
      ];
      say(`${out.green("✓")} replayed ${compared}: identical to the record. ${facts.join(" · ")}`);
    }
    return exitCodes.ok;
  } catch (error) {
    if (error instanceof MisuseError) {
      const message = `${request.source} is not the record of a turn; everturn show ID --export FILE writes one`;
      throw new UsageError(message, { cause: error });
    }
    if (!(error instanceof RuntimeError) || (error.reason !== "diverged" && error.reason !== "replay_missing"))
      throw error;
    const { reason, message, paths } = error.failure;
    if (request.json) say(safeJson({ same: false, reason, message, paths }));
    else {
      const how = reason === "diverged" ? `differs from the record in ${plural(paths.length, "place")}:` : message;
      say(`${out.red("✗")} replayed ${compared}: ${how}`);
      for (const path of paths) say(`  ${path}`);
    }
    return exitCodes.failed;
  }
}

/** The engine of the current settings that the record names. Throws `UsageError` if there is none of that name. */
async function currentEngine(context: CommandContext, record: string): Promise<Engine> {
  const { engines, selected } = await createEngines(await context.settings(), context.io.environment);
  const name = engineNamed(record) ?? selected;
  const engine = Object.hasOwn(engines, name) ? engines[name] : undefined;
  if (engine !== undefined) return engine;
  throw new UsageError(
    `the record names the engine ${JSON.stringify(name)}; the engines are ${Object.keys(engines).join(", ")}`,
  );
}

/** The name of the engine in a record; `null`: the text is not a record, which the replay reports. */
function engineNamed(record: string): string | null {
  try {
    const value: { readonly data?: { readonly start?: { readonly engine?: unknown } } } | null = JSON.parse(record);
    const name = value?.data?.start?.engine;
    return typeof name === "string" ? name : null;
  } catch {
    return null;
  }
}

/**
 * Reads a record as text, from a file, standard input, or a session of the database. An existing file takes precedence
 * over a session id.
 */
async function recordText(context: CommandContext, { source, turn }: ReplayRequest): Promise<string> {
  if (source === "-") return context.io.stdin();
  const path = resolve(context.io.folder, source);
  if (existsSync(path)) {
    try {
      return readFileSync(path, "utf8");
    } catch (cause) {
      throw new UsageError(`cannot read ${path}`, { cause });
    }
  }
  return withSessions(context, async (sessions, { database }) => {
    const located = await locateSession(sessions, source, tenantOf(context)).catch((error: unknown) => {
      if (!(error instanceof UsageError) || !error.message.startsWith("there is no session")) throw error;
      throw new UsageError(
        `there is no file ${path}, and no session ${JSON.stringify(source)} in ${databaseName(database.value)}`,
      );
    });
    const { source: reader } = located.sessions;
    return JSON.stringify(await inspection(reader).export(located.id, turn ?? undefined));
  });
}
