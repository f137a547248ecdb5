// `everturn studio`: prints a link that logs in to the studio of a server which runs on this machine with the token
// file. The token is not sent: the code of the link is computed from it (apps/server/src/login.ts), so that another
// process which listens at the port does not receive it.

import type { CommandContext } from "./context.ts";
import type { Environment } from "@everturn/server";

import { lookup } from "node:dns/promises";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

import { createLoginCode, hostInUrl } from "@everturn/server";

import { canOpenBrowser } from "../browser.ts";
import { ensurePrivateFolder, writePrivateFile } from "../private-file.ts";
import { readTokenFile, tokenFilePath } from "../token-file.ts";
import { UsageError } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";

/** A link to a page of a server, with a code that the page exchanges for the token. */
export function loginLink(url: string, token: string): string {
  return `${url}#code=${createLoginCode(token, Number(new URL(url).port || "80"))}`;
}

/**
 * Writes a page that redirects to the link, and returns its URL. A browser is opened with that URL: other users of the
 * machine can list the arguments of processes, and would have the code of the link before the browser has it. Only the
 * user can read the page.
 */
export function redirectPage(link: string, environment: Environment): string {
  const folder = dirname(tokenFilePath(environment));
  const path = join(folder, "open-studio.html");
  ensurePrivateFolder(folder);
  writePrivateFile(
    path,
    `<!doctype html><meta charset="utf-8"><title>Everturn</title><meta http-equiv="refresh" content="0; url=${link}">\n`,
  );
  return pathToFileURL(path).href;
}

export async function studio(context: CommandContext, { open }: { readonly open: boolean }): Promise<number> {
  const { io, say } = context;
  const { host, port, tokens, program } = await context.settings();
  if (program.auth !== null || tokens.value === "off" || tokens.value.length > 0) {
    throw new UsageError(
      "the server has authentication of its own: open its address, and log in with one of its tokens",
    );
  }
  // The address that the server has bound, as Node resolves it: another process may listen at the other address of this
  // name.
  const address = host.value === "localhost" ? (await lookup(host.value)).address : host.value;
  const url = `http://${hostInUrl(address)}:${port.value}/studio/`;
  const isServed = await fetch(url, { method: "HEAD", redirect: "manual" }).then(
    ({ ok }) => ok,
    () => false,
  );
  const token = readTokenFile(io.environment);
  if (!isServed || token === null) {
    throw new UsageError(
      `no server with a studio listens at ${url}: start it with \`everturn serve\`, or name its port`,
    );
  }
  say(loginLink(url, token));
  if (open && canOpenBrowser(io.environment)) io.openBrowser(redirectPage(loginLink(url, token), io.environment));
  return exitCodes.ok;
}
