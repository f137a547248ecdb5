// Makes the chunks of several connections one valid stream of the AI SDK.
//
// A server that continues a stream after a cursor may start a block or a step that the reader has open, and may end one
// that the reader has ended: it knows the text that was read, and not the chunks that were sent for it. The client of
// the SDK rejects such a stream. Ids of blocks are the same in all connections, because they are made of the turn, the
// step and the part.

/** The fields of a chunk that the filter reads. */
type Chunk = { readonly type: string; readonly id?: string };

export class StreamFilter {
  #isStarted = false;
  #isStepOpen = false;
  readonly #openBlocks = new Set<string>();

  /** Whether a chunk is passed on. */
  accepts({ type, id = "" }: Chunk): boolean {
    switch (type) {
      case "start": {
        const isFirst = !this.#isStarted;
        this.#isStarted = true;
        return isFirst;
      }
      case "start-step": {
        const isNew = !this.#isStepOpen;
        this.#isStepOpen = true;
        return isNew;
      }
      case "finish-step": {
        const isOpen = this.#isStepOpen;
        this.#isStepOpen = false;
        this.#openBlocks.clear();
        return isOpen;
      }
      case "reset-step":
        this.#openBlocks.clear();
        return true;
      case "text-start":
      case "reasoning-start":
        if (this.#openBlocks.has(id)) return false;
        this.#openBlocks.add(id);
        return true;
      case "text-end":
      case "reasoning-end":
        return this.#openBlocks.delete(id);
      default:
        return true;
    }
  }
}
