// The context of a command: input and output, colours, and the settings, which are loaded when a command asks for them.

import type { Colours } from "../terminal/style.ts";
import type { Workspace, WorkspaceOptions } from "../workspace.ts";
import type { Io } from "./io.ts";
import type { Settings, SettingsRequest } from "@everturn/server";
import type { Runtime } from "everturn/runtime";

import { userInfo } from "node:os";

import { safeText } from "../terminal/safe-text.ts";
import { colours, wantsColours } from "../terminal/style.ts";

/** A command line that cannot be executed. Exit code 2. */
export class UsageError extends Error {
  override readonly name: string = "UsageError";
}

export type CommandContext = {
  readonly io: Io;
  /** Colours of standard output. */
  readonly out: Colours;
  /** Colours of standard error. */
  readonly err: Colours;
  /** The options of the command line, as commander names them. Those that set settings are flags of the settings. */
  readonly options: { readonly [name: string]: unknown };
  /** The path in `--config`; `null`: none; `false`: `--no-config`. */
  readonly config: string | false | null;
  /** Loads all settings. Asks at the terminal whether to trust a configuration file. Rejects with `SettingsError`. */
  readonly settings: () => Promise<Settings>;
  /** Writes a line to standard output. */
  readonly say: (line?: string) => void;
  /** Writes a line to standard error. */
  readonly note: (line: string) => void;
};

export type ContextOptions = Pick<CommandContext, "options" | "config"> & { readonly color: boolean };

/**
 * Loads the settings. If the configuration file of the folder is not trusted, the user is asked at the terminal.
 * Without a terminal, and if the answer is no, the error is passed on, so the command exits with 2.
 */
async function loadTrusted(io: Io, { options, config }: Omit<ContextOptions, "color">): Promise<Settings> {
  const { loadSettings, settingFlags, systemOf, trustConfig, UntrustedConfigError } = await import("@everturn/server");
  const { environment, folder } = io;
  const flags = settingFlags(options);
  const request: SettingsRequest = { flags, environment, folder, ...(config === null ? {} : { config }) };
  try {
    return await loadSettings(request);
  } catch (error) {
    if (!(error instanceof UntrustedConfigError) || io.confirm === null) throw error;
    const { path, changed, files } = error;
    const state =
      changed.length === 0 ? "is not trusted yet" : `has changed since you trusted it (${changed.join(", ")})`;
    io.stderr.write(
      safeText(`The configuration file ${path} ${state}. It can run code, and choose where your API keys are sent.\n`),
    );
    if (!(await io.confirm("Trust it as it is now?"))) throw error;
    trustConfig(path, systemOf(io.environment), files);
    return loadSettings(request);
  }
}

export function createContext(io: Io, { options, config, color }: ContextOptions): CommandContext {
  const coloursOf = (isTerminal: boolean) => colours(color && wantsColours(io.environment, isTerminal));
  return {
    io,
    out: coloursOf(io.stdout.isTerminal),
    err: coloursOf(io.stderr.isTerminal),
    options,
    config,
    settings: () => loadTrusted(io, { options, config }),
    say: (line = "") => io.stdout.write(`${line}\n`),
    note: (line) => io.stderr.write(`${line}\n`),
  };
}

/**
 * Opens the workspace, passes it to `use`, and closes it in every case. Warnings are printed to standard error by
 * default. Failed turns are not: a command shows the end of its turn, and those that drive turns of others pass
 * `onTurnFailure`.
 */
export async function withWorkspace<T>(
  context: CommandContext,
  use: (workspace: Workspace) => Promise<T>,
  options: WorkspaceOptions = {},
): Promise<T> {
  const settings = await context.settings();
  const { openWorkspace } = await import("../workspace.ts");
  const workspace = await openWorkspace(settings, context.io.environment, {
    onTurnFailure: ignore,
    onWarning: (message) => context.note(context.err.yellow(`everturn: warning: ${safeText(message)}`)),
    ...options,
  });
  try {
    const tenant = tenantOf(context);
    return await use(tenant === null ? workspace : { ...workspace, sessions: workspace.sessions.tenant(tenant) });
  } finally {
    await workspace.close();
  }
}

function ignore(): void {}

/** The tenant of `--tenant`; `null`: the option is not given. */
export function tenantOf({ options: { tenant } }: Pick<CommandContext, "options">): string | null {
  return typeof tenant === "string" ? tenant : null;
}

/** The sessions of the tenant of `--tenant`, for the user of the command: the audit log names it. */
function inTenant(context: CommandContext, sessions: Runtime): Runtime {
  const tenant = tenantOf(context);
  const acting = sessions.actedBy(actorName());
  return tenant === null ? acting : acting.tenant(tenant);
}

/** Who the audit log names for commands. */
export function actorName(): string {
  try {
    return `command of ${userInfo().username}`;
  } catch {
    // The user has no entry in the system.
    return "command";
  }
}

/**
 * As `withWorkspace`, for commands that run no turn: works also if tools or model are misconfigured. `drive`: verbs may
 * end turns that no process drives.
 */
export async function withSessions<T>(
  context: CommandContext,
  use: (sessions: Runtime, settings: Settings) => Promise<T>,
  { drive = false }: { readonly drive?: boolean } = {},
): Promise<T> {
  const settings = await context.settings();
  const { openSessions } = await import("../workspace.ts");
  const { sessions, close } = await openSessions(settings, { drive });
  try {
    return await use(inTenant(context, sessions), settings);
  } finally {
    await close();
  }
}
