// Measures text in terminal cells and splits it where it may be cut.
//
// The width of a code point is that of East Asian Width (Unicode Annex 11), from `get-east-asian-width`. The rules here
// group code points into clusters: an emoji of several code points is one cluster, is never cut, and is two cells wide.
// The rules look at one code point at a time and never ahead, so the clusters, and with them the line breaks, do not
// depend on how a stream was cut into deltas. `Intl.Segmenter` needs the following code point to know that a grapheme
// has ended; with it, the last character received would have to wait.

import { eastAsianWidth } from "get-east-asian-width";

const escape = "\u001B";
/** SGR sequences (ECMA-48), which set styles and have no width. */
const styleCodes = new RegExp(`(${escape}\\[[0-9;]*m)`);

/** The width of a text in cells. The text may contain styles, but no other control characters. */
export function cellWidth(text: string): number {
  let width = 0;
  for (const cluster of clusters(text.replaceAll(new RegExp(styleCodes, "g"), ""))) width += clusterWidth(cluster);
  return width;
}

/** Splits a text into clusters. */
export function clusters(text: string): readonly string[] {
  const list: string[] = [];
  const open = new OpenCluster((cluster) => list.push(cluster));
  for (const point of text) open.add(point);
  open.flush();
  return list;
}

/** Cuts a text to a width, with an ellipsis if something was cut. Styles are kept. */
export function fit(text: string, width: number): string {
  if (cellWidth(text) <= width) return text;
  let fitting = "";
  let used = 0;
  for (const [index, piece] of text.split(styleCodes).entries()) {
    if (index % 2 === 1) fitting += piece;
    for (const cluster of index % 2 === 1 ? [] : clusters(piece)) {
      used += clusterWidth(cluster);
      if (used <= width - 1) fitting += cluster;
    }
  }
  return width > 0 ? `${fitting}…` : "";
}

/** Pads a text with spaces to a width. */
export function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - cellWidth(text)));
}

/**
 * Groups code points into clusters as they arrive. Only code points that can start a longer cluster (pictographs and
 * regional indicators) are held back; a combining mark on any other character is a cluster of its own, without width.
 */
export class OpenCluster {
  #held = "";
  readonly #give: (cluster: string) => void;

  constructor(give: (cluster: string) => void) {
    this.#give = give;
  }

  add(point: string): void {
    if (this.#held !== "" && isContinued(this.#held, point)) {
      this.#held += point;
      return;
    }
    this.flush();
    if (canGrow.test(point)) this.#held = point;
    else this.#give(point);
  }

  flush(): void {
    const done = this.#held;
    this.#held = "";
    if (done !== "") this.#give(done);
  }
}

const ascii = /^[\u0020-\u007E]$/;
const canGrow = /^[\p{Extended_Pictographic}\p{Regional_Indicator}]/u;
const isFlagPart = /^\p{Regional_Indicator}$/u;
const joiner = "\u200D";
/** Variation selector 16: the character before it is shown as an emoji. */
const emojiPresentation = "\uFE0F";
const isSkinTone = /^\p{Emoji_Modifier}$/u;
/**
 * Code points without a cell of their own: nonspacing and enclosing marks, variation selectors, joiners, tags of flags,
 * medial and final Hangul letters. Spacing marks (`Mc`), such as the vowel signs of Indic scripts, have a cell.
 */
const zeroWidth = /^[\p{Mn}\p{Me}\u200B-\u200F\u2060\uFEFF\u{E0020}-\u{E007F}\u1160-\u11FF\uD7B0-\uD7FF]$/u;

function isContinued(held: string, point: string): boolean {
  if (zeroWidth.test(point) || isSkinTone.test(point)) return held.length < 64;
  if (held.endsWith(joiner)) return canGrow.test(point);
  return isFlagPart.test(held) && isFlagPart.test(point);
}

export function clusterWidth(cluster: string): number {
  if (ascii.test(cluster)) return 1;
  if (zeroWidth.test(cluster)) return 0;
  if (cluster.includes(emojiPresentation)) return 2;
  let width = 0;
  for (const point of cluster) width += zeroWidth.test(point) ? 0 : eastAsianWidth(point.codePointAt(0) ?? 0);
  return Math.min(2, width);
}
