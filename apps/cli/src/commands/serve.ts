// `everturn serve`: serves the workspace over HTTP until SIGINT or SIGTERM, then shuts down gracefully. The server also drives queued turns and turns
// whose process has died. Requests, failed turns and internal errors are logged to standard error (server-log.ts).

import type { Workspace } from "../workspace.ts";
import type { CommandContext } from "./context.ts";
import type { ServerOptions, Settings } from "@everturn/server";
import type { TurnFailure } from "everturn/runtime";

import { startServer } from "@everturn/server";

import { UsageError, withWorkspace } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { redactor, requestLine, turnFailureLine } from "./server-log.ts";
import { stopSignal } from "./stop-signal.ts";
import { brief } from "./text.ts";

export async function serve(context: CommandContext): Promise<number> {
  const { say, note, err, io } = context;
  const settings = await context.settings();
  const redact = redactor(settings, io.environment);
  const log = (line: string): string => `${new Date().toISOString()} ${redact(line)}`;
  const onTurnFailure = (report: TurnFailure): void => note(err.red(log(turnFailureLine(report))));
  const serving = async ({ sessions, engines, engine, model, database }: Workspace): Promise<number> => {
    const { host, port, cors, completions, requestLog, program } = settings;
    const auth = authOf(settings);
    const { openai = { ...engines, [model]: engine }, ...http } = program.http;
    const server = await startServer({
      sessions,
      host: host.value,
      port: port.value,
      auth,
      origins: cors.value,
      ...(completions.value ? { openai } : {}),
      // Without authentication the server listens on loopback only, and every caller is the operator, who may export turn records.
      records: auth === "none",
      ...http,
      ...(settings.static.value === null ? {} : { staticFolder: settings.static.value }),
      onError: (error) => note(err.red(log(`error: ${brief(error instanceof Error ? error.message : error, 500)}`))),
      ...(requestLog.value ? { onRequest: (entry) => note(err.dim(log(requestLine(entry)))) } : {}),
    }).catch((error: unknown) => {
      throw usageErrorOf(error, host.value, port.value);
    });
    say(`everturn listens on ${server.url}`);
    note(
      err.dim(
        `${model} · ${database.name} · ${auth === "none" ? "no token" : typeof auth === "function" ? "with authentication" : "with tokens"}`,
      ),
    );
    await stopSignal(context);
    note(err.dim("shutting down; press Ctrl-C again to exit immediately"));
    await server.close();
    return exitCodes.ok;
  };
  return withWorkspace(context, serving, { onTurnFailure });
}

/**
 * Bearer tokens of a flag or a variable, else `auth` of the configuration file, else its tokens; no authentication if none is set. `startServer` then accepts only
 * a loopback address.
 */
function authOf({ tokens, program }: Settings): ServerOptions["auth"] {
  const isExplicit = tokens.source.from === "flag" || tokens.source.from === "environment";
  if (program.auth !== null && !isExplicit) return program.auth;
  if (tokens.value.length === 0) return "none";
  return tokens.value.map(({ tenant, token }) => (tenant === "" ? { token } : { tenant, token }));
}

/** Converts errors of `listen` that another `--host` or `--port` avoids to usage errors. */
function usageErrorOf(error: unknown, host: string, port: number): unknown {
  const code = error instanceof Error && "code" in error ? error.code : null;
  if (code === "EADDRINUSE") {
    return new UsageError(`port ${port} of ${host} is in use; --port 0 chooses a free one`, { cause: error });
  }
  if (code === "EACCES" || code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
    return new UsageError(`cannot listen on ${host}, port ${port} (${code})`, { cause: error });
  }
  return error;
}
