// Asks the user at the terminal for an answer or an approval. If no key is pressed within `firstKeyMs`, or there is no
// terminal, the demo answers in the user's place and prints that it did. Each key extends the time to `nextKeyMs`, so
// that typing is not interrupted.

import type { Screen } from "./screen.ts";

import { clearLine, createInterface, cursorTo, emitKeypressEvents } from "node:readline";

export type Answer<T> = {
  readonly value: T;
  readonly by: "person" | "demo";
};

/** The input stream of a terminal. */
export type Keyboard = NodeJS.ReadableStream & { readonly setRawMode?: (isRaw: boolean) => unknown };

export type AnswerPromptOptions = {
  /** `null`: no terminal; the demo answers. */
  readonly terminal: { readonly input: Keyboard; readonly out: NodeJS.WritableStream } | null;
  readonly screen: Screen;
  /** Called for Ctrl-C, which a terminal in raw mode delivers as a key and not as SIGINT. */
  readonly interrupt: () => void;
  readonly signal: AbortSignal;
  /** How long to wait for the first key, in milliseconds. Default: 2,000. */
  readonly firstKeyMs?: number;
  /** How long to wait after each key, in milliseconds. Default: 20,000. */
  readonly nextKeyMs?: number;
};

const defaultFirstKeyMs = 2000;
const defaultNextKeyMs = 20_000;

type Key = { readonly name?: string; readonly ctrl?: boolean };

export class AnswerPrompt {
  readonly #options: AnswerPromptOptions;

  constructor(options: AnswerPromptOptions) {
    this.#options = options;
  }

  /** Asks for a line of text. `fallback` is the demo's answer. */
  async askText(name: string, fallback: string): Promise<Answer<string>> {
    const { terminal, screen } = this.#options;
    if (terminal === null) {
      screen.line(name, `${fallback} (answered by the demo)`);
      return { value: fallback, by: "demo" };
    }
    this.#hint("Type an answer, then Enter.");
    const { input, out } = terminal;
    const typed = await this.#waitFor(input, (done, stop) => {
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
    if (!this.#options.signal.aborted) screen.line(name, `${fallback} (answered by the demo)`);
    return { value: fallback, by: "demo" };
  }

  /** Asks for yes or no, by one key. The demo approves. */
  async askApproval(name: string): Promise<Answer<boolean>> {
    const { terminal, screen } = this.#options;
    if (terminal === null) {
      screen.line(name, "approved (by the demo)", "good");
      return { value: true, by: "demo" };
    }
    this.#hint("Press y or n.");
    const { input, out } = terminal;
    const pressed = await this.#waitFor<boolean>(input, (done, stop) => {
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
      `${value ? "approved" : "denied"} (by ${pressed === null ? "the demo" : "you"})`,
      value ? "good" : "bad",
    );
    return { value, by: pressed === null ? "demo" : "person" };
  }

  #hint(what: string): void {
    const seconds = (this.#options.firstKeyMs ?? defaultFirstKeyMs) / 1000;
    this.#options.screen.line("", `${what} After ${seconds} s the demo answers for you.`, "dim");
  }

  /** Waits for input. Returns `null` on a timeout, on abort, and when the input ends. */
  #waitFor<T = string>(
    input: Keyboard,
    begin: (done: (value: T | null) => void, stop: (stopping: () => void) => void) => void,
  ): Promise<T | null> {
    const { signal, firstKeyMs = defaultFirstKeyMs, nextKeyMs = defaultNextKeyMs } = this.#options;
    return new Promise((resolve) => {
      let stopping: (() => void) | null = null;
      let isOver = false;
      const done = (value: T | null): void => {
        if (isOver) return;
        isOver = true;
        clearTimeout(timer);
        input.off("keypress", extendTime);
        signal.removeEventListener("abort", giveUp);
        stopping?.();
        resolve(value);
      };
      const giveUp = () => done(null);
      let timer = setTimeout(giveUp, firstKeyMs);
      const extendTime = () => {
        // The key that completed the answer is also delivered to this listener.
        if (isOver) return;
        clearTimeout(timer);
        timer = setTimeout(giveUp, nextKeyMs);
      };
      signal.addEventListener("abort", giveUp, { once: true });
      begin(done, (stop) => (stopping = stop));
      input.on("keypress", extendTime);
    });
  }

  /** Erases the line of an unanswered prompt. */
  #clear(out: NodeJS.WritableStream): void {
    cursorTo(out, 0);
    clearLine(out, 0);
  }
}
