// What the reader takes out of the page: files, and commands for a shell. A command never contains the token.

/** Saves a text as a file. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A command that reads the messages of a session. */
export function curlOfMessages(origin: string, sessionId: string): string {
  return `curl -H "Authorization: Bearer $EVERTURN_TOKEN" ${shellQuoted(
    `${origin}/sessions/${encodeURIComponent(sessionId)}/messages`,
  )}`;
}

/** A text as one word of a POSIX shell. */
function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
