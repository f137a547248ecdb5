// Texts for the clipboard: a value as JSON, and requests as `curl` commands. A command never contains the token: it names the variable EVERTURN_TOKEN.

import type { Json, UserMessage } from "everturn/model";

/** A `curl` command that reads a row of the journal. */
export function curlOfEffect(origin: string, sessionId: string, turnId: string, ordinal: number): string {
  const path = ["sessions", sessionId, "turns", turnId, "effects", `${ordinal}`].map(encodeURIComponent).join("/");
  return command(`${origin}/${path}`, []);
}

/** A `curl` command that reads the timeline of a turn. */
export function curlOfTurn(origin: string, sessionId: string, turnId: string): string {
  const path = ["sessions", sessionId, "turns", turnId, "timeline"].map(encodeURIComponent).join("/");
  return command(`${origin}/${path}`, []);
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
  return ["curl", '-H "Authorization: Bearer $EVERTURN_TOKEN"', ...more, quoted(url)].join(" \\\n  ");
}

/** A text as one word of a POSIX shell: in single quotes, in which nothing is expanded. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A value as JSON with indentation. */
export function jsonText(value: Json): string {
  return JSON.stringify(value, null, 2);
}
