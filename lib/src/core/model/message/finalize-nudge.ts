// The user message that asks for the structured answer after the loop (`structuredFinalize`). The library writes it, so
// its metadata marks it: views of a conversation that show what the user wrote leave it out.

import type { JsonObject } from "../parse/json.ts";
import type { Message } from "./message.ts";

/** The metadata of the nudge in a thread. */
export const finalizeNudgeMetadata: JsonObject = { structuredFinalize: true };

/** Is this the nudge of a structured call? */
export function isFinalizeNudge({ role, metadata }: Message): boolean {
  return role === "user" && metadata["structuredFinalize"] === true;
}
