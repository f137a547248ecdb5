// Whoever is at the terminal. They may answer; if they do not begin to within some seconds, or there is no terminal, the demo answers for them and
// says so. A key that is pressed buys more time, so nobody is cut off while typing.

import type { Screen } from "./screen.ts";

import { clearLine, createInterface, cursorTo, emitKeypressEvents } from "node:readline";

export type Answer<T> = {
  readonly value: T;
  readonly by: "person" | "demo";
};

/** What keys come from. */
export type Keyboard = NodeJS.ReadableStream & { readonly setRawMode?: (isRaw: boolean) => unknown };

export type PersonOptions = {
  /** `null`: nobody is there. */
  readonly terminal: { readonly input: Keyboard; readonly out: NodeJS.WritableStream } | null;
  readonly screen: Screen;
  /** Ctrl-C, which a terminal that is being typed into hands on as a key. */
  readonly interrupt: () => void;
  readonly signal: AbortSignal;
  readonly firstKeyMs?: number;
  readonly nextKeyMs?: number;
};

/** Shorter than most people think, since the whole demo is. */
const firstKey = 2000;
const nextKey = 20_000;

type Key = { readonly name?: string; readonly ctrl?: boolean };

export class Person {
  readonly #options: PersonOptions;

  constructor(options: PersonOptions) {
    this.#options = options;
  }

  /** A line of text. */
  async answer(name: string, fallback: string): Promise<Answer<string>> {
    const { terminal, screen } = this.#options;
    if (terminal === null) {
      screen.line(name, `${fallback} (said by the demo)`);
      return { value: fallback, by: "demo" };
    }
    this.#hint("Type an answer, then Enter.");
    const { input, out } = terminal;
    const typed = await this.#within(input, (done, stop) => {
      const lines = createInterface({ input, output: out, terminal: true, prompt: screen.prompt(name) });
      lines.on("line", (line) => done(line.trim() === "" ? null : line.trim()));
      lines.on("SIGINT", () => {
        this.#options.interrupt();
        done(null);
      });
      lines.on("close", () => done(null));
      stop(() => lines.close());
      lines.prompt();
    });
    if (typed !== null) return { value: typed, by: "person" };
    this.#clear(out);
    if (!this.#options.signal.aborted) screen.line(name, `${fallback} (said by the demo)`);
    return { value: fallback, by: "demo" };
  }

  /** Yes or no, by one key. */
  async consent(name: string): Promise<Answer<boolean>> {
    const { terminal, screen } = this.#options;
    if (terminal === null) {
      screen.line(name, "approved (by the demo)", "good");
      return { value: true, by: "demo" };
    }
    this.#hint("Press y or n.");
    const { input, out } = terminal;
    const pressed = await this.#within<boolean>(input, (done, stop) => {
      const listen = (_: string, { name: key, ctrl = false }: Key) => {
        if (ctrl && key === "c") {
          this.#options.interrupt();
          done(null);
        }
        if (key === "y" || key === "n") done(key === "y");
      };
      emitKeypressEvents(input);
      input.setRawMode?.(true);
      input.on("keypress", listen);
      input.resume();
      stop(() => {
        input.off("keypress", listen);
        input.setRawMode?.(false);
        input.pause();
      });
    });
    this.#clear(out);
    if (this.#options.signal.aborted) return { value: false, by: "demo" };
    const value = pressed ?? true;
    screen.line(
      name,
      `${value ? "approved" : "refused"} (by ${pressed === null ? "the demo" : "you"})`,
      value ? "good" : "bad",
    );
    return { value, by: pressed === null ? "demo" : "person" };
  }

  #hint(what: string): void {
    const seconds = (this.#options.firstKeyMs ?? firstKey) / 1000;
    this.#options.screen.line("", `${what} In ${seconds} s the demo does it for you.`, "dim");
  }

  /** What is typed, or `null` when nothing is for too long, or nothing can be any more. */
  #within<T = string>(
    input: Keyboard,
    begin: (done: (value: T | null) => void, stop: (stopping: () => void) => void) => void,
  ): Promise<T | null> {
    const { signal, firstKeyMs = firstKey, nextKeyMs = nextKey } = this.#options;
    return new Promise((resolve) => {
      let stopping: (() => void) | null = null;
      let over = false;
      const done = (value: T | null): void => {
        if (over) return;
        over = true;
        clearTimeout(timer);
        input.off("keypress", again);
        signal.removeEventListener("abort", leave);
        stopping?.();
        resolve(value);
      };
      const leave = () => done(null);
      let timer = setTimeout(leave, firstKeyMs);
      const again = () => {
        // The key that ended it is told to everybody who listened then.
        if (over) return;
        clearTimeout(timer);
        timer = setTimeout(leave, nextKeyMs);
      };
      signal.addEventListener("abort", leave, { once: true });
      begin(done, (stop) => (stopping = stop));
      input.on("keypress", again);
    });
  }

  /** Takes the unanswered line back: only ever where somebody could have typed. */
  #clear(out: NodeJS.WritableStream): void {
    cursorTo(out, 0);
    clearLine(out, 0);
  }
}
