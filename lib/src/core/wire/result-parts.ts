// Parts of tool results that an API does not accept: audio, files of other types, files of another provider. A tool
// returns them while a turn runs, so an exception would end the turn, and the stored result every later one. The model
// reads a note in place of the part, and the reply has a warning.
//
// User messages are different: the program wrote them, so the codecs throw for such a part before anything is sent.

import type { UserPart } from "../model/internal.ts";
import type { Omission } from "./codec.ts";

import { AdapterError, normalizeContent, textPart } from "../model/internal.ts";
import { unsupported } from "./omission.ts";

/**
 * The content of a tool result with notes in place of what cannot be sent, and the omissions, with paths relative to
 * the message.
 */
export type SendableResult = { readonly parts: readonly UserPart[]; readonly omissions: readonly Omission[] };

/** Replaces the parts for which `encode` throws `AdapterError` by a note. */
export function sendableResult(
  content: string | readonly UserPart[],
  encode: (part: UserPart) => unknown,
): SendableResult {
  const omissions: Omission[] = [];
  const parts = normalizeContent<UserPart>(content).map((part, index): UserPart => {
    try {
      encode(part);
      return part;
    } catch (error) {
      if (!(error instanceof AdapterError)) throw error;
      omissions.push(unsupported(`.content[${index}]`, error.message));
      return textPart(noteOf(part));
    }
  });
  return { parts, omissions };
}

function noteOf(part: UserPart): string {
  const mimeType = part.type === "file" ? part.mimeType : part.type === "image" ? part.image.mimeType : null;
  const kind = part.type === "image" ? "An image" : mimeType?.startsWith("audio/") === true ? "Audio" : "A file";
  return `[${kind}${mimeType === null ? "" : ` of the type ${mimeType}`}, which this API does not read]`;
}
