// The parts of a reply (`text/0`, `reasoning/0`, `text/1`): which part a delta belongs to, and how much of each part
// was received.

import type { AssistantMessage } from "../message/message.ts";
import type { TurnEvent } from "./event.ts";

/** The text that an event adds to a reply, and its block; `null`: it adds none. */
export function deltaText(
  event: TurnEvent,
): { readonly kind: "text" | "reasoning" | "call"; readonly id: string | null; readonly delta: string } | null {
  switch (event.type) {
    case "text_delta":
      return { kind: "text", id: event.id, delta: event.delta };
    case "reasoning_delta":
      return { kind: "reasoning", id: event.id, delta: event.delta };
    case "tool_call_delta":
      return { kind: "call", id: event.id, delta: event.argumentsDelta };
    default:
      return null;
  }
}

/**
 * Assigns deltas to parts of the reply (`text/0`, `reasoning/0`, `text/1`) and counts the length of each part. Parts
 * are separated as in the message that the reply becomes: by block id, and without ids by a change of kind.
 */
export class ReplyParts {
  /** The part of the newest block, by kind and id. */
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  readonly #lengths = new Map<string, number>();
  #block = "";

  /** The part and offset of an event. */
  locate(event: TurnEvent): { readonly part: string | null; readonly offset: number } {
    const text = deltaText(event);
    if (text === null) return { part: null, offset: 0 };
    const block = `${text.kind}:${text.id ?? ""}`;
    const continuesBlock = text.id !== null || this.#block === block;
    // Argument deltas of calls are interleaved with text and do not end a block.
    if (text.kind !== "call") this.#block = block;
    let part = continuesBlock ? this.#names.get(block) : undefined;
    if (part === undefined) {
      const count = this.#counts.get(text.kind) ?? 0;
      this.#counts.set(text.kind, count + 1);
      part = `${text.kind}/${count}`;
      this.#names.set(block, part);
    }
    const offset = this.#lengths.get(part) ?? 0;
    this.#lengths.set(part, offset + text.delta.length);
    return { part, offset };
  }
}

/**
 * A text of a complete reply that a reader lacks: `index` is that of its part in the content, `offset` how much of the
 * part was read.
 */
type MissingText = {
  readonly type: "text" | "reasoning";
  readonly part: string;
  readonly index: number;
  readonly offset: number;
  readonly text: string;
};

/** The text of a complete reply that a reader lacks, given how much of each part it has read. */
export function missingTexts({ content }: AssistantMessage, read: ReadonlyMap<string, number>): readonly MissingText[] {
  if (typeof content === "string") {
    // A plain string joins the texts of all blocks: what was read is the sum of the text parts.
    const readTexts = [...read].filter(([part]) => part.startsWith("text/"));
    const [part, offset] = readTexts.at(-1) ?? ["text/0", 0];
    const text = content.slice(readTexts.reduce((sum, [, length]) => sum + length, 0));
    return text === "" ? [] : [{ type: "text", part, index: 0, offset, text }];
  }
  const counts = { text: 0, reasoning: 0 };
  return content.flatMap((block, index) => {
    // A block without text (encrypted reasoning, for example) had no deltas, so it got no part number.
    if ((block.type !== "text" && block.type !== "reasoning") || block.text === "") return [];
    const { type } = block;
    const part = `${type}/${counts[type]}`;
    counts[type] += 1;
    const offset = read.get(part) ?? 0;
    const text = block.text.slice(offset);
    return text === "" ? [] : [{ type, part, index, offset, text }];
  });
}
