// One model reply as text and reasoning blocks of the AI SDK. Each block is started once and ended once, and its text is sent exactly
// once, whether it arrives as deltas or with the complete message.

import type { AssistantMessage, AssistantPart } from "../../../core/model/internal.ts";
import type { UiChunk } from "./chunks.ts";

import { fileOf } from "./parts.ts";

type BlockKind = "text" | "reasoning";

/** A block that was started. Ended blocks are kept, so that later text of the same part starts a new block. */
type Block = { readonly kind: BlockKind; readonly id: string; readonly state: "open" | "ended" };

/** The blocks of one reply, by the part they come from (`text/0`, `reasoning/1`). */
export class ReplyBlocks {
  /** The prefix of block ids in this reply. */
  readonly #prefix: string;
  readonly #blocks = new Map<string, Block>();
  #hasDeltas = false;
  #continuations = 0;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Whether any delta of the reply was received, also one of call arguments. The event reader delivers all deltas from then on, so the complete message adds no text. */
  get hasDeltas(): boolean {
    return this.#hasDeltas;
  }

  markReceived(): void {
    this.#hasDeltas = true;
  }

  /** Appends text to a block, and starts the block if necessary. */
  delta(kind: BlockKind, part: string, delta: string): readonly UiChunk[] {
    this.#hasDeltas = true;
    const chunks: UiChunk[] = [];
    // Text ends the reasoning before it.
    if (kind === "text") chunks.push(...this.endReasoning());
    const existingBlock = this.#blocks.get(part);
    let id = existingBlock?.id ?? "";
    if (existingBlock === undefined || existingBlock.state === "ended") {
      // A block that continues after its end needs a new id: the client does not reopen one.
      id =
        existingBlock === undefined
          ? `${this.#prefix}/${part}`
          : `${this.#prefix}/${part}/${(this.#continuations += 1)}`;
      this.#blocks.set(part, { kind, id, state: "open" });
      chunks.push({ type: `${kind}-start`, id });
    }
    chunks.push({ type: `${kind}-delta`, id, delta });
    return chunks;
  }

  endReasoning(): readonly UiChunk[] {
    return this.#end(({ kind }) => kind === "reasoning");
  }

  endAll(): readonly UiChunk[] {
    return this.#end(() => true);
  }

  #end(matches: (block: Block) => boolean): readonly UiChunk[] {
    const chunks: UiChunk[] = [];
    for (const [part, block] of this.#blocks) {
      if (block.state === "ended" || !matches(block)) continue;
      this.#blocks.set(part, { ...block, state: "ended" });
      chunks.push({ type: `${block.kind}-end`, id: block.id });
    }
    return chunks;
  }

  /** A complete text of which no delta was received. */
  completeText(text: string): readonly UiChunk[] {
    return text === "" ? [] : [...this.delta("text", "text/0", text), ...this.endAll()];
  }

  /** Called with the complete message: ends all blocks and sends what did not arrive as deltas. `renderCall` renders calls and results at their places. */
  settle(
    { content }: AssistantMessage,
    renderCall: (part: Extract<AssistantPart, { readonly type: "tool_call" | "tool_result" }>) => readonly UiChunk[],
  ): readonly UiChunk[] {
    const hadDeltas = this.#hasDeltas;
    const chunks: UiChunk[] = [...this.endAll()];
    if (typeof content === "string") return hadDeltas ? chunks : [...chunks, ...this.completeText(content)];
    const counts = { text: 0, reasoning: 0 };
    for (const part of content) {
      switch (part.type) {
        case "text":
        case "reasoning": {
          // Encrypted or empty parts have no deltas and no number.
          if (hadDeltas || part.text === "") break;
          const name = `${part.type}/${counts[part.type]}`;
          counts[part.type] += 1;
          chunks.push(...this.delta(part.type, name, part.text), ...this.endAll());
          break;
        }
        case "image":
        case "file": {
          const file = fileOf(part);
          if (file !== null) chunks.push({ type: "file", url: file.url, mediaType: file.mediaType });
          break;
        }
        case "tool_call":
        case "tool_result":
          chunks.push(...renderCall(part));
          break;
        case "opaque":
          break;
      }
    }
    return chunks;
  }
}
