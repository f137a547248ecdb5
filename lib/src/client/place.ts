// How far a reader has got, so that it can go on behind it and shows nothing twice.
//
// A cursor says which entries were read and how much of each text. What is only worth seeing now and is no text, a tool that reports its progress, does not
// move it: a server tells that again to whoever comes back, for as long as the step is open. Here it is known, and dropped.

import type { RuntimeEvent } from "../model/internal.ts";
import type { Frame } from "./frames.ts";

import { ClientError } from "./errors.ts";

/** Most things that are remembered of a step. A server keeps fewer. */
const most = 16_384;

export class Place {
  #cursor: string | null;
  #sequence: number | null = null;
  /** What was shown since the last entry and is no text. */
  #shown: string[] = [];
  /** How often each of those may come again. */
  #again = new Map<string, number>();

  constructor(cursor: string | null) {
    this.#cursor = cursor;
  }

  get cursor(): string | null {
    return this.#cursor;
  }

  /** A new connection begins. */
  comeBack(): void {
    this.#again = new Map();
    for (const words of this.#shown) this.#again.set(words, (this.#again.get(words) ?? 0) + 1);
  }

  /** The event of a frame; `null`: it was shown before. */
  take({ id, data }: Frame): RuntimeEvent | null {
    const told = parsed<Omit<RuntimeEvent, "cursor">>(data);
    const isNew = told.sequence === null ? this.#isNew(told) : this.#isNext(told.sequence);
    if (!isNew) return null;
    this.#cursor = id ?? this.#cursor;
    return { cursor: this.#cursor ?? "", ...told };
  }

  #isNext(sequence: number): boolean {
    if (this.#sequence !== null && sequence <= this.#sequence) return false;
    this.#sequence = sequence;
    this.#forget();
    return true;
  }

  #isNew({ delta, event }: Omit<RuntimeEvent, "cursor">): boolean {
    if (delta !== null) return true;
    if (event.type === "step_reset") {
      this.#forget();
      return true;
    }
    const words = sorted(event);
    const left = this.#again.get(words) ?? 0;
    if (left > 0) {
      this.#again.set(words, left - 1);
      return false;
    }
    if (this.#shown.length < most) this.#shown.push(words);
    return true;
  }

  #forget(): void {
    this.#shown = [];
    this.#again.clear();
  }
}

/** One text for one value: a process that heard it and one that reads it name its fields in different orders. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  );
}

/** The JSON of a frame, trusted to be what the API says it is. */
export function parsed<T>(data: string): T {
  try {
    const value: T = JSON.parse(data);
    return value;
  } catch {
    throw new ClientError("unexpected_answer", `a frame that is not JSON: ${JSON.stringify(data.slice(0, 200))}`);
  }
}
