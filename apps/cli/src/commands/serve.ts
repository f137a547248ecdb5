// `everturn serve`: the workspace over HTTP, until somebody says stop. It also goes on with turns that other processes have left.

import type { CommandContext } from "./context.ts";
import type { ServerOptions, ServerToken } from "@everturn/server";

import { startServer } from "@everturn/server";

import { UsageError, withWorkspace } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { brief } from "./text.ts";

export async function serve(context: CommandContext): Promise<number> {
  const { say, note, err } = context;
  return withWorkspace(context, async ({ settings, sessions, engine }) => {
    const { model, host, port, tokens, cors, database } = settings;
    const server = await startServer({
      sessions,
      host: host.value,
      port: port.value,
      auth: authOf(tokens.value),
      origins: cors.value,
      openai: { default: engine, [model.value]: engine },
      // With nobody but this machine to ask, whoever asks is the operator.
      records: tokens.value.length === 0,
      onError: (error) => note(err.red(`everturn: ${brief(error instanceof Error ? error.message : error, 500)}`)),
    }).catch((error: unknown) => {
      throw mended(error, host.value, port.value);
    });
    say(`everturn listens on ${server.url}`);
    note(err.dim(`${model.value} · ${database.value} · ${tokens.value.length === 0 ? "no token" : "with tokens"}`));
    await stopped(context);
    note(err.dim("stopping; once more ends it at once"));
    await server.close();
    return exitCodes.ok;
  });
}

/** Who may come in: whoever has a token; with none set, this machine. */
function authOf(tokens: readonly ServerToken[]): ServerOptions["auth"] {
  if (tokens.length === 0) return "none";
  return tokens.map(({ tenant, token }) => (tenant === "" ? { token } : { tenant, token }));
}

/** Resolves at the first Ctrl-C or SIGTERM; the second ends the process. */
function stopped({ io }: CommandContext): Promise<void> {
  return new Promise((resolve) => {
    let asked = 0;
    const stop = () => {
      asked += 1;
      if (asked > 1) io.exit(exitCodes.interrupted);
      resolve();
    };
    io.onInterrupt(stop);
    io.onTerminate(stop);
  });
}

/** What can be mended on the command line is said so. */
function mended(error: unknown, host: string, port: number): unknown {
  const code = error instanceof Error && "code" in error ? error.code : null;
  if (code === "EADDRINUSE") {
    return new UsageError(`port ${port} of ${host} is taken: --port 0 takes any that is free`, { cause: error });
  }
  if (code === "EACCES" || code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
    return new UsageError(`cannot listen on ${host}, port ${port} (${code})`, { cause: error });
  }
  return error;
}
