// What every command gets: where to read and write, how things look there, and the settings, read when they are first needed.

import type { Colours } from "../terminal/style.ts";
import type { Workspace } from "../workspace.ts";
import type { Io } from "./io.ts";
import type { GivenFlags, Settings } from "@everturn/server";
import type { Runtime } from "everturn/runtime";

import { colours, wantsColours } from "../terminal/style.ts";

/** Something was asked for in a way that cannot work: exit code 2. */
export class UsageError extends Error {
  override readonly name: string = "UsageError";
}

export type CommandContext = {
  readonly io: Io;
  /** For what goes to standard output. */
  readonly out: Colours;
  /** For what goes to standard error. */
  readonly err: Colours;
  /** What was said on the command line alone. */
  readonly flags: GivenFlags;
  readonly config: string | null;
  readonly settings: () => Promise<Settings>;
  readonly say: (line?: string) => void;
  readonly note: (line: string) => void;
};

export type ContextOptions = {
  readonly flags: GivenFlags;
  readonly config: string | null;
  readonly color: boolean;
};

export function createContext(io: Io, { flags, config, color }: ContextOptions): CommandContext {
  const coloursOf = (isTerminal: boolean) => colours(color && wantsColours(io.environment, isTerminal));
  return {
    io,
    out: coloursOf(io.stdout.isTerminal),
    err: coloursOf(io.stderr.isTerminal),
    flags,
    config,
    settings: async () => {
      const { loadSettings } = await import("@everturn/server");
      const { environment, folder } = io;
      return loadSettings({ flags, environment, folder, ...(config === null ? {} : { config }) });
    },
    say: (line = "") => io.stdout.write(`${line}\n`),
    note: (line) => io.stderr.write(`${line}\n`),
  };
}

/** Opens what the settings name, and closes it again whatever happens. */
export async function withWorkspace<T>(context: CommandContext, use: (workspace: Workspace) => Promise<T>): Promise<T> {
  const settings = await context.settings();
  const { openWorkspace } = await import("../workspace.ts");
  const workspace = await openWorkspace(settings, context.io.environment);
  try {
    return await use(workspace);
  } finally {
    await workspace.close();
  }
}

/** The same for looking at sessions: neither tools nor a model have to work. */
export async function withSessions<T>(
  context: CommandContext,
  use: (sessions: Runtime, settings: Settings) => Promise<T>,
): Promise<T> {
  const settings = await context.settings();
  const { openSessions } = await import("../workspace.ts");
  const { sessions, close } = await openSessions(settings);
  try {
    return await use(sessions, settings);
  } finally {
    await close();
  }
}
