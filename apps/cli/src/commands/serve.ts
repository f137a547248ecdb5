// `everturn serve`: serves the workspace over HTTP until SIGINT or SIGTERM, then shuts down gracefully. The server also drives queued turns and turns
// whose process has died.

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
      // Without tokens the server listens on loopback only, and every caller is the operator, who may export turn records.
      records: tokens.value.length === 0,
      onError: (error) => note(err.red(`everturn: ${brief(error instanceof Error ? error.message : error, 500)}`)),
    }).catch((error: unknown) => {
      throw usageErrorOf(error, host.value, port.value);
    });
    say(`everturn listens on ${server.url}`);
    note(err.dim(`${model.value} · ${database.value} · ${tokens.value.length === 0 ? "no token" : "with tokens"}`));
    await stopSignal(context);
    note(err.dim("shutting down; press Ctrl-C again to exit immediately"));
    await server.close();
    return exitCodes.ok;
  });
}

/** Bearer tokens, or no authentication if none is set. `startServer` then accepts only a loopback address. */
function authOf(tokens: readonly ServerToken[]): ServerOptions["auth"] {
  if (tokens.length === 0) return "none";
  return tokens.map(({ tenant, token }) => (tenant === "" ? { token } : { tenant, token }));
}

/** Resolves at the first SIGINT or SIGTERM; the second ends the process immediately. */
function stopSignal({ io }: CommandContext): Promise<void> {
  return new Promise((resolve) => {
    let signals = 0;
    const stop = () => {
      signals += 1;
      if (signals > 1) io.exit(exitCodes.interrupted);
      resolve();
    };
    io.onInterrupt(stop);
    io.onTerminate(stop);
  });
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
