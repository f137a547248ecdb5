// What the reader takes out of the page: files, values as JSON, and requests as `curl` commands. A command never
// contains the token: it names the variable EVERTURN_TOKEN.

import type { Json, UserMessage } from "everturn";
import type { EverturnClient } from "everturn/client";

import { tenantHeaders } from "../data/tenant-headers.ts";
import { shownTenant } from "../route.ts";

/** Reads the record of a turn and saves it as a file. */
export async function exportTurn(client: EverturnClient, sessionId: string, turnId: string): Promise<void> {
  const record = await client.export(sessionId, turnId);
  // File systems reject other characters.
  const name = `${sessionId}-${turnId}`.replace(/[^\w.-]+/g, "_").slice(0, 100);
  saveFile(`${name}.turn.json`, new Blob([JSON.stringify(record, null, 2)], { type: "application/json" }));
}

/** Saves a file as a download. */
export function saveFile(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads the object after the click; a later task may release it.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A `curl` command that reads something of the server. `path`: the parts of the path. */
export function curlOf(origin: string, path: readonly string[]): string {
  return command(`${origin}/${path.map(encodeURIComponent).join("/")}`, []);
}

/** A `curl` command that sends a user message to a session again. */
export function curlOfUserMessage(
  origin: string,
  sessionId: string,
  { content }: Pick<UserMessage, "content">,
): string {
  const body = typeof content === "string" ? { text: content } : { message: { role: "user", content } };
  return command(`${origin}/sessions/${encodeURIComponent(sessionId)}/send`, [
    '-H "Content-Type: application/json"',
    `--data-raw ${quoted(JSON.stringify(body))}`,
  ]);
}

function command(url: string, more: readonly string[]): string {
  const tenant = Object.entries(tenantHeaders(shownTenant())).map(
    ([name, value]) => `-H ${quoted(`${name}: ${value}`)}`,
  );
  return ["curl", '-H "Authorization: Bearer $EVERTURN_TOKEN"', ...tenant, ...more, quoted(url)].join(" \\\n  ");
}

/** A text as one word of a POSIX shell: in single quotes, in which nothing is expanded. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A value as JSON with indentation. */
export function jsonText(value: Json): string {
  return JSON.stringify(value, null, 2);
}
