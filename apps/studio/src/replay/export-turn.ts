// Export of a turn record to a file of the reader's machine.

import type { EverturnClient } from "everturn/client";

/** Reads the record of a turn and saves it as a file. */
export async function exportTurn(client: EverturnClient, sessionId: string, turnId: string): Promise<void> {
  const record = await client.export(sessionId, turnId);
  saveFile(fileNameOf(sessionId, turnId), JSON.stringify(record, null, 2));
}

/** A file name without characters that file systems reject. */
function fileNameOf(sessionId: string, turnId: string): string {
  return `${`${sessionId}-${turnId}`.replace(/[^\w.-]+/g, "_").slice(0, 100)}.turn.json`;
}

function saveFile(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads the object after the click; a later task may release it.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
