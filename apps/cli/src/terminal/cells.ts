// How many cells of a terminal text takes, and where it may be cut. Characters that belong together, an emoji of several, a letter and its accents, are
// one cluster: never cut, and as wide as what is seen.

import stringWidth from "fast-string-width";

// eslint-disable-next-line no-control-regex -- styles take no room
const styleCodes = /(\u001B\[[0-9;]*m)/;

/** The width of text that has no control characters in it but perhaps styles. */
export function cellWidth(text: string): number {
  let width = 0;
  for (const cluster of clusters(text.replaceAll(new RegExp(styleCodes, "g"), ""))) width += clusterWidth(cluster);
  return width;
}

/** The text in clusters. */
export function clusters(text: string): readonly string[] {
  const found: string[] = [];
  const open = new OpenCluster((cluster) => found.push(cluster));
  for (const point of text) open.add(point);
  open.flush();
  return found;
}

/** As much of the text as fits, with an ellipsis where something was left out. Styles in it are kept. */
export function fit(text: string, width: number): string {
  if (cellWidth(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const [index, piece] of text.split(styleCodes).entries()) {
    if (index % 2 === 1) kept += piece;
    for (const cluster of index % 2 === 1 ? [] : clusters(piece)) {
      used += clusterWidth(cluster);
      if (used <= width - 1) kept += cluster;
    }
  }
  return width > 0 ? `${kept}…` : "";
}

/** The text with as many spaces behind it as it lacks. */
export function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - cellWidth(text)));
}

/**
 * Puts clusters together from characters that come one by one. Only what may become another thing by what follows is waited for; an accent on any
 * other character comes as a cluster without width.
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
    if (maySwell.test(point)) this.#held = point;
    else this.#give(point);
  }

  flush(): void {
    const done = this.#held;
    this.#held = "";
    if (done !== "") this.#give(done);
  }
}

const ascii = /^[\u0020-\u007E]$/;
const maySwell = /^[\p{Extended_Pictographic}\p{Regional_Indicator}]/u;
const isFlagPart = /^\p{Regional_Indicator}$/u;
const joiner = "\u200D";
const isSkinTone = /^\p{Emoji_Modifier}$/u;
/** What stands on the character before it: accents, variation selectors, joiners, tags of flags, medial and final Hangul letters. */
const extender = /^[\p{M}\u200B-\u200F\u2060\uFEFF\u{E0020}-\u{E007F}\u1160-\u11FF\uD7B0-\uD7FF]$/u;

function isContinued(held: string, point: string): boolean {
  if (extender.test(point) || isSkinTone.test(point)) return held.length < 64;
  if (held.endsWith(joiner)) return maySwell.test(point);
  return isFlagPart.test(held) && isFlagPart.test(point);
}

export function clusterWidth(cluster: string): number {
  if (ascii.test(cluster)) return 1;
  if (extender.test(cluster)) return 0;
  return Math.min(2, stringWidth(cluster));
}
