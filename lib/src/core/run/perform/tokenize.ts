// Counts the tokens of a request with the tokenizer of a context policy.
//
// A tokenizer gets pieces of at most `pieceLength` characters, cut at white space where there is some. Tokenizers merge
// pairs of a word in a time that is quadratic in its length: gpt-tokenizer takes 33 seconds for 200,000 letters without
// a space, and less than 0.2 seconds in pieces. Each message is counted once, so a step costs what is new in it (H5). Between
// slices the event loop is free for other work.

import type { Tokenizer } from "../../engine/internal.ts";
import type { Turn } from "../../kernel/internal.ts";
import type { ModelRequest } from "../../model/internal.ts";

import { FairTicks } from "../../fair/fair-ticks.ts";
import { messageTokens, promptOf, uncounted, visitTexts } from "../../kernel/internal.ts";

/** The greatest length of a text that a tokenizer gets, in characters. A word is rarely longer. */
const pieceLength = 512;

/** Characters that are counted in one tick of the event loop, for each tenant. A tokenizer takes about a millisecond. */
const sliceLength = 16_384;
const slices = new FairTicks(1);

const counts = new WeakMap<Tokenizer, WeakMap<object, number>>();

/**
 * The tokens of the request that a turn waits for: what was counted before, and what the tokenizer counts of the rest.
 * Rejects with what the tokenizer throws, and if it returns no number of tokens.
 */
export async function tokenized(
  tokenizer: Tokenizer,
  request: ModelRequest,
  turn: Turn,
  tenant: string | null,
): Promise<number> {
  const known = counts.get(tokenizer) ?? new WeakMap<object, number>();
  counts.set(tokenizer, known);
  const { counted, messages } = uncounted(turn);
  let sum = counted;
  for (const message of messages ?? request.messages) {
    const tokens = known.get(message) ?? messageTokens + (await tokensOf(promptOf(message)));
    known.set(message, tokens);
    sum += tokens;
  }
  if (messages !== null) return sum;
  const { tools } = request;
  const ofTools = known.get(tools) ?? (await tokensOf(tools));
  known.set(tools, ofTools);
  return sum + ofTools;

  async function tokensOf(value: unknown): Promise<number> {
    const texts: string[] = [];
    let tokens = visitTexts(value, (text) => texts.push(text));
    let inSlice = sliceLength;
    for (const piece of pieces(texts.join("\n"))) {
      if (inSlice >= sliceLength) {
        await slices.next(tenant ?? "");
        inSlice = 0;
      }
      const result = tokenizer(piece);
      const ofPiece = typeof result === "number" ? result : await result;
      if (!Number.isFinite(ofPiece) || ofPiece < 0) throw new Error(`it returned ${String(ofPiece)} for a text`);
      tokens += ofPiece;
      inSlice += piece.length;
    }
    return Math.ceil(tokens);
  }
}

/** The pieces of a text: none is cut in a character, nor in a word that is shorter than half of a piece. */
export function* pieces(text: string): Iterable<string> {
  let from = 0;
  while (from < text.length) {
    const to = endOfPiece(text, from);
    yield text.slice(from, to);
    from = to;
  }
}

function endOfPiece(text: string, from: number): number {
  const limit = from + pieceLength;
  if (limit >= text.length) return text.length;
  for (let end = limit; end > limit - pieceLength / 2; end -= 1) {
    // A space belongs to the word after it.
    if (isSpace(text.charCodeAt(end))) return end;
  }
  const isInCharacter = (text.codePointAt(limit - 1) ?? 0) > 0xffff;
  return isInCharacter ? limit - 1 : limit;
}

/** Space, tab, line feed, carriage return. */
function isSpace(code: number): boolean {
  return code === 32 || code === 9 || code === 10 || code === 13;
}
