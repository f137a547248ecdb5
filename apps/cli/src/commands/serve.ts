// `everturn serve`: serves the workspace over HTTP until SIGINT or SIGTERM, then shuts down gracefully. The server also
// drives queued turns and turns whose process has died. With `--drive restate`, Restate calls this process or others
// for every turn. Requests, failed turns and internal errors are logged to standard error (server-log.ts).

import type { Workspace } from "../workspace.ts";
import type { CommandContext } from "./context.ts";
import type { ServerOptions, Settings } from "@everturn/server";
import type { RestateServer, SendFailure } from "everturn/restate";
import type { TurnFailure } from "everturn/runtime";

import { createScenarios, isLoopback, loginCodeMs, scenarioEngineName, startServer } from "@everturn/server";
import { registerRestateDeployment, serveRestate } from "everturn/restate";

import { canOpenBrowser } from "../browser.ts";
import { ensureTokenFile, tokenFilePath } from "../token-file.ts";
import { UsageError, withWorkspace } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";
import { redactor, requestLine, turnFailureLine } from "./server-log.ts";
import { stopSignal } from "./stop-signal.ts";
import { loginLink, redirectPage } from "./studio.ts";
import { brief } from "./text.ts";

/**
 * Turn options that callers may set if every caller is the operator: those that the playground of the studio offers.
 */
const operatorOptions: NonNullable<ServerOptions["allow"]> = [
  "model",
  "instructions",
  "temperature",
  "topP",
  "maxTokens",
  "stopSequences",
  "seed",
  "toolChoice",
  "activeTools",
  "maxTurns",
];

export type ServeOptions = {
  /** Opens the studio in the browser, if standard output is a terminal of a machine with a display. */
  readonly open: boolean;
};

export async function serve(context: CommandContext, { open }: ServeOptions): Promise<number> {
  const { say, note, err, io } = context;
  const settings = await context.settings();
  const isRestate = settings.drive.value === "restate";
  const ownToken = usesOwnToken(settings) ? ensureTokenFile(io.environment) : null;
  const redact = redactor(settings, io.environment, ownToken);
  const log = (line: string): string => `${new Date().toISOString()} ${redact(line)}`;
  const onTurnFailure = (report: TurnFailure): void => note(err.red(log(turnFailureLine(report))));
  const auth = ownToken === null ? authOf(settings) : [{ token: ownToken, operator: true }];
  // Every caller is the user who started the server.
  const isForUser = auth === "none" || ownToken !== null;
  const scenarios = offersScenarios(settings, auth) ? createScenarios({ paceMs: settings.pace.value }) : null;
  const serving = async (workspace: Workspace): Promise<number> => {
    const { sessions, engines, engine, model, database } = workspace;
    const { host, port, cors, trustedProxies, completions, requestLog, program } = settings;
    const { openai = { ...engines, [model]: engine }, ...http } = program.http;
    // A configuration file that lists engines for `/v1` needs no second setting.
    const isListed = program.http.openai !== undefined && completions.source.from === "default";
    const service = isRestate ? await startService(settings, sessions, (line) => note(err.red(log(line)))) : null;
    const server = await startServer({
      sessions,
      host: host.value,
      port: port.value,
      auth,
      origins: cors.value,
      // Keys of `everturn keys`, beside those of the settings.
      admin: auth !== "none",
      trustedProxies: trustedProxies.value,
      ...(completions.value || isListed ? { openai } : {}),
      // The operator may export turn records, and set the options of turns that the playground of the studio changes.
      records: isForUser,
      allow: isForUser ? operatorOptions : [],
      inspect: {
        storage: database.driver === "postgres" || database.driver === "custom" ? database.driver : "sqlite",
        // With Restate, no worker of this process takes over the turn of a killed process.
        scenarios: scenarios?.over(isRestate ? null : workspace.databaseTarget) ?? [],
      },
      // Restate calls this process or another one for every turn.
      ...(isRestate ? { work: false } : {}),
      ...http,
      studio: settings.studio.value,
      ...(ownToken === null ? {} : { loginToken: ownToken }),
      ...(settings.static.value === null ? {} : { staticFolder: settings.static.value }),
      onError: (error) => note(err.red(log(`error: ${brief(error instanceof Error ? error.message : error, 500)}`))),
      ...(requestLog.value ? { onRequest: (entry) => note(err.dim(log(requestLine(entry)))) } : {}),
    }).catch(async (error: unknown) => {
      await service?.close({ graceMs: 0 });
      throw usageErrorOf(error, host.value, port.value);
    });
    say(`everturn listens on ${server.url}`);
    const linkTo = (url: string): string => (ownToken === null ? url : loginLink(url, ownToken));
    if (settings.static.value !== null && ownToken !== null) say(`The page is at ${linkTo(`${server.url}/`)}`);
    if (server.studioUrl !== null) {
      say(`The studio is at ${linkTo(server.studioUrl)}`);
      // A link of its own: the printed one stays usable in another browser.
      if (open && io.stdout.isTerminal && canOpenBrowser(io.environment)) {
        io.openBrowser(ownToken === null ? server.studioUrl : redirectPage(linkTo(server.studioUrl), io.environment));
      }
    }
    if (ownToken !== null) {
      note(err.dim(`a link logs in once, within ${loginCodeMs / 60_000} minutes; \`everturn studio\` prints another`));
    }
    if (service !== null) say(`Restate calls ${service.url}`);
    note(
      err.dim(
        `${model} · ${database.name} · ${authText(auth, ownToken === null ? null : tokenFilePath(io.environment))}`,
      ),
    );
    await stopSignal(context);
    note(err.dim("shutting down; press Ctrl-C again to exit immediately"));
    await scenarios?.close();
    // First the turns: other processes continue them while responses are still sent here.
    await service?.close();
    await server.close();
    return exitCodes.ok;
  };
  const onSendFailure = ({ sessionId, error }: SendFailure): void =>
    note(
      err.red(
        log(
          `error: session ${sessionId} was not sent to Restate: ${brief(error instanceof Error ? error.message : error, 500)}`,
        ),
      ),
    );
  const restate = { restate: { ingress: settings.restateIngress.value }, onSendFailure };
  const moreEngines = scenarios?.engines ?? {};
  return withWorkspace(context, serving, {
    onTurnFailure,
    moreEngines,
    search: settings.search.value,
    ...(isRestate ? { restate } : {}),
  });
}

/**
 * Whether the studio offers its scenarios. Their engine is part of the runtime, so they are left out if a caller has a
 * tenant or a list of engines, if a function decides about callers, and if the configuration file has an engine of that
 * name.
 */
function offersScenarios({ studio, program }: Settings, auth: ServerOptions["auth"]): boolean {
  const isForOperators =
    auth === "none" ||
    (typeof auth !== "function" && auth.every((key) => (key.tenant ?? "") === "" && key.engines === undefined));
  return studio.value && isForOperators && !Object.hasOwn(program.engines ?? {}, scenarioEngineName);
}

/** Lets Restate call this process, and registers it if the admin API is set. */
async function startService(
  { restateIngress, restateListen, restateAdmin, restateUri, restateKeys }: Settings,
  sessions: Workspace["sessions"],
  onError: (line: string) => void,
): Promise<RestateServer> {
  const { host, port } = restateListen.value;
  if (restateKeys.value.length === 0 && !isLoopback(host)) {
    throw new UsageError(
      `other machines can reach ${host}: set a key of Restate (--restate-key), or listen on 127.0.0.1`,
    );
  }
  const restate = { ingress: restateIngress.value };
  const service = await serveRestate({
    sessions,
    host,
    port,
    restate,
    identityKeys: restateKeys.value,
    onLog: (level, message) => {
      // On loopback, unsigned requests are intended.
      if (level === "error" && !message.includes("without validating")) onError(`Restate: ${brief(message, 500)}`);
    },
  }).catch((error: unknown) => {
    throw usageErrorOf(error, host, port, "--restate-listen");
  });
  if (restateAdmin.value === null) return service;
  try {
    await registerRestateDeployment({ ...restate, admin: restateAdmin.value, uri: restateUri.value ?? service.url });
    return service;
  } catch (error) {
    await service.close({ graceMs: 0 });
    throw error;
  }
}

/**
 * Whether neither tokens nor `auth` are set: the server then uses the token file. An address that other machines can
 * reach needs a token that was set on purpose.
 */
function usesOwnToken(settings: Settings): boolean {
  const { tokens, program, host } = settings;
  return program.auth === null && tokens.value !== "off" && tokens.value.length === 0 && isLoopback(host.value);
}

function authText(auth: ServerOptions["auth"], tokenFile: string | null): string {
  if (tokenFile !== null) return `token in ${tokenFile}`;
  return auth === "none" ? "no token" : typeof auth === "function" ? "with authentication" : "with tokens";
}

/**
 * Bearer tokens of a flag or a variable, else `auth` of the configuration file, else its tokens; no authentication if
 * none is set. `startServer` then accepts only a loopback address. A token without a tenant is that of an operator.
 */
function authOf({ tokens, program }: Settings): ServerOptions["auth"] {
  const isExplicit = tokens.source.from === "flag" || tokens.source.from === "environment";
  if (program.auth !== null && !isExplicit) return program.auth;
  if (tokens.value === "off" || tokens.value.length === 0) return "none";
  return tokens.value.map(({ tenant, token }) => (tenant === "" ? { token, operator: true } : { tenant, token }));
}

/** Converts errors of `listen` that another `--host` or `--port` avoids to usage errors. */
function usageErrorOf(error: unknown, host: string, port: number, flag = "--port"): unknown {
  const code = error instanceof Error && "code" in error ? error.code : null;
  if (code === "EADDRINUSE") {
    return new UsageError(`port ${port} of ${host} is in use; ${flag} 0 chooses a free one`, { cause: error });
  }
  if (code === "EACCES" || code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
    return new UsageError(`cannot listen on ${host}, port ${port} (${code})`, { cause: error });
  }
  return error;
}
