// Opens a URL in the browser of the user. Other users of the machine can list the arguments of processes, so the URL
// must not contain a secret.

import type { Environment } from "@everturn/server";

import { spawn } from "node:child_process";

/**
 * Whether a browser can be expected to open: not in continuous integration, not without a display, not on a machine
 * that is used over SSH.
 */
export function canOpenBrowser(environment: Environment, platform: NodeJS.Platform = process.platform): boolean {
  const isSet = (name: string): boolean => (environment[name] ?? "") !== "";
  if (isSet("CI")) return false;
  if (platform === "darwin" || platform === "win32") return !isSet("SSH_CONNECTION");
  return isSet("DISPLAY") || isSet("WAYLAND_DISPLAY");
}

/** The program that opens a URL. None of them is a shell. */
const openers: { readonly [platform: string]: readonly [string, ...(readonly string[])] } = {
  darwin: ["open"],
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};

/** Opens a URL. A failure is ignored: the link is also printed. */
export function openBrowser(url: string): void {
  const [program, ...words] = openers[process.platform] ?? ["xdg-open"];
  const child = spawn(program, [...words, url], { stdio: "ignore", detached: true });
  child.on("error", () => undefined);
  child.unref();
}
