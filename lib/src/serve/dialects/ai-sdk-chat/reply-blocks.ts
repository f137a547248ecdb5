// One model reply as text and reasoning blocks of the AI SDK. Each block is started once and ended once.

import type { UiChunk } from "./chunks.ts";

type BlockKind = "text" | "reasoning";

/** A block that was started. Ended blocks are kept, so that later text of the same part starts a new block. */
type Block = { readonly kind: BlockKind; readonly id: string; readonly state: "open" | "ended" };

/** The blocks of one reply, by the part they come from (`text/0`, `reasoning/1`). */
export class ReplyBlocks {
  /** The prefix of block ids in this reply. */
  readonly #prefix: string;
  readonly #blocks = new Map<string, Block>();
  #continuations = 0;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Appends text to a block, and starts the block if necessary. */
  delta(kind: BlockKind, part: string, delta: string): readonly UiChunk[] {
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
}
