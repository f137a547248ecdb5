// The folders of the user in which the command keeps its files: data (the default database) and configuration (the
// trust store). XDG base directories on Linux, Application Support on macOS, AppData on Windows.

import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

/** What the folders depend on. */
export type System = {
  readonly environment: { readonly [name: string]: string | undefined };
  readonly platform: NodeJS.Platform;
  /** The home folder; empty: the user has none. */
  readonly home: string;
};

/** The system of this process, with the given environment variables. */
export function systemOf(environment: System["environment"]): System {
  return { environment, platform: process.platform, home: homeFolder() };
}

/** The folder for data: `XDG_DATA_HOME` or its default, with `everturn`. `null`: the user has no home folder. */
export function dataFolder({ environment, platform, home }: System): string | null {
  return folderIn(environment["XDG_DATA_HOME"], home, () => {
    if (platform === "darwin") return join(home, "Library", "Application Support");
    if (platform === "win32") return environment["LOCALAPPDATA"] || join(home, "AppData", "Local");
    return join(home, ".local", "share");
  });
}

/**
 * The folder for configuration: `XDG_CONFIG_HOME` or its default, with `everturn`. `null`: the user has no home folder.
 */
export function configurationFolder({ environment, platform, home }: System): string | null {
  return folderIn(environment["XDG_CONFIG_HOME"], home, () => {
    if (platform === "darwin") return join(home, "Library", "Application Support");
    if (platform === "win32") return environment["APPDATA"] || join(home, "AppData", "Roaming");
    return join(home, ".config");
  });
}

function folderIn(variable: string | undefined, home: string, fallback: () => string): string | null {
  const named = variable ?? "";
  const base = named === "" ? fallback() : isAbsolute(named) ? named : join(home, named);
  // Without a home folder the path would be relative to the working directory, and every directory would have its own
  // files.
  return isAbsolute(base) ? join(base, "everturn") : null;
}

/**
 * The user's home folder; empty if the user has none: `homedir` throws for a user id without an entry in the password
 * database.
 */
function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return "";
  }
}
