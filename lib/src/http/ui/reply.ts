// One reply of the model as it is told to a chat: its text and its reasoning in blocks, each begun once, ended once, and told nothing in between
// that it was told before.

import type { AssistantMessage, AssistantPart } from "../../model/internal.ts";
import type { UiChunk } from "./chunks.ts";

import { fileOf } from "./parts.ts";

type BlockKind = "text" | "reasoning";

type Block = { readonly kind: BlockKind; readonly id: string; readonly state: "open" | "ended" };

export class UiReply {
  /** What ids in this reply begin with. */
  readonly #prefix: string;
  readonly #blocks = new Map<string, Block>();
  #heard = false;
  #count = 0;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Has any of it been heard, be it only arguments of a call? The reader sees to it that nothing is missing then, and nothing is told twice. */
  get heard(): boolean {
    return this.#heard;
  }

  hear(): void {
    this.#heard = true;
  }

  /** More of a block. */
  delta(kind: BlockKind, part: string, delta: string): readonly UiChunk[] {
    this.#heard = true;
    const chunks: UiChunk[] = [];
    // Whoever begins to speak has stopped thinking.
    if (kind === "text") chunks.push(...this.endReasoning());
    const known = this.#blocks.get(part);
    let id = known?.id ?? "";
    if (known === undefined || known.state === "ended") {
      // One that goes on after it was ended is another one to the client.
      id = known === undefined ? `${this.#prefix}/${part}` : `${this.#prefix}/${part}/${(this.#count += 1)}`;
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

  #end(isMeant: (block: Block) => boolean): readonly UiChunk[] {
    const chunks: UiChunk[] = [];
    for (const [part, block] of this.#blocks) {
      if (block.state === "ended" || !isMeant(block)) continue;
      this.#blocks.set(part, { ...block, state: "ended" });
      chunks.push({ type: `${block.kind}-end`, id: block.id });
    }
    return chunks;
  }

  /** A text nobody has heard anything of. */
  wholeText(text: string): readonly UiChunk[] {
    return text === "" ? [] : [...this.delta("text", "text/0", text), ...this.endAll()];
  }

  /** The reply is whole: what was not heard is told. Calls and their results are told by `tell`, at their places. */
  settle(
    { content }: AssistantMessage,
    tell: (part: Extract<AssistantPart, { readonly type: "tool_call" | "tool_result" }>) => readonly UiChunk[],
  ): readonly UiChunk[] {
    const heard = this.#heard;
    const chunks: UiChunk[] = [...this.endAll()];
    if (typeof content === "string") return heard ? chunks : [...chunks, ...this.wholeText(content)];
    const counts = { text: 0, reasoning: 0 };
    for (const part of content) {
      switch (part.type) {
        case "text":
        case "reasoning": {
          // What was encrypted, or says nothing, was never heard and has no number.
          if (heard || part.text === "") break;
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
          chunks.push(...tell(part));
          break;
        case "opaque":
          break;
      }
    }
    return chunks;
  }
}
