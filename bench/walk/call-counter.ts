// Counts calls of the library's functions with V8's precise coverage. It has to be started before the library is
// loaded: V8 counts nothing in functions that it optimised earlier.

import type { Profiler } from "node:inspector";

import { Session } from "node:inspector";

/** A function of the library, and how often it was called. */
export type CalledFunction = {
  /** The file, relative to the counted folder, without its extension. */
  readonly file: string;
  /** The name of the function; empty for an anonymous one. */
  readonly name: string;
  /** The offset of the function in the file, which distinguishes functions of one name. */
  readonly offset: number;
  readonly calls: number;
};

export class CallCounter {
  readonly #session = new Session();
  readonly #folder: string;

  /** `folder`: the URL of the folder whose files are counted, with a slash at its end. */
  constructor(folder: string) {
    this.#folder = folder;
    this.#session.connect();
    this.#session.post("Profiler.enable");
    this.#session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  }

  /** Returns the calls since the last call of this method. */
  take(): readonly CalledFunction[] {
    let taken: readonly Profiler.ScriptCoverage[] = [];
    let failure: Error | null = null;
    // An inspector session in the same process calls back before `post` returns.
    this.#session.post("Profiler.takePreciseCoverage", (error, answer) => {
      failure = error;
      taken = answer?.result ?? [];
    });
    if (failure !== null) throw failure;
    return taken.filter(({ url }) => url.startsWith(this.#folder)).flatMap((script) => this.#calledIn(script));
  }

  stop(): void {
    this.#session.disconnect();
  }

  #calledIn({ url, functions }: Profiler.ScriptCoverage): readonly CalledFunction[] {
    const file = url.slice(this.#folder.length).replace(/\.ts(?:\?.*)?$/, "");
    return functions.flatMap(({ functionName: name, ranges }) => {
      const [range] = ranges;
      // The module itself counts as a function that begins at 0.
      if (range === undefined || range.count === 0 || (range.startOffset === 0 && name === "")) return [];
      return [{ file, name, offset: range.startOffset, calls: range.count }];
    });
  }
}
