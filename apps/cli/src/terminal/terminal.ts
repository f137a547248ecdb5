// The terminal as a value: delivers keys and writes text. The terminal is in raw mode while it is open, and is restored
// whatever ends the program.

import type { Key } from "./editor.ts";

import { emitKeypressEvents } from "node:readline";

export type Terminal = {
  readonly columns: () => number;
  readonly rows: () => number;
  readonly write: (text: string) => void;
  /**
   * Sets the listener for keys, and first delivers the keys that were buffered without one. `null`: keys are buffered.
   */
  readonly listen: (listener: ((key: Key) => void) | null) => void;
  /** Adds a listener. Returns a function that removes it. */
  readonly onResize: (listener: () => void) => () => void;
  /** Adds a listener that is called when the terminal was closed (SIGHUP, end of input) or the process gets SIGTERM. */
  readonly onGone: (listener: () => void) => () => void;
  readonly close: () => void;
};

/** Enables bracketed paste. */
const enterSequence = "\u001B[?2004h";
/** Disables bracketed paste, shows the cursor and resets the style. */
const restoreSequence = "\u001B[?2004l\u001B[?25h\u001B[0m";

/** Opens the terminal of this process. Both streams must be terminals. */
export function openTerminal(stdin: NodeJS.ReadStream, stdout: NodeJS.WriteStream): Terminal {
  const resized = new Set<() => void>();
  const gone = new Set<() => void>();
  const bufferedKeys: Key[] = [];
  let listener: ((key: Key) => void) | null = null;
  let isOpen = true;
  /** Whether the terminal still exists. A closed terminal can be neither written to nor restored. */
  let isConnected = true;
  const enter = (): void => {
    stdin.setRawMode(true);
    stdin.resume();
    stdout.write(enterSequence);
  };
  const restore = (): void => {
    if (!isConnected) return;
    stdout.write(restoreSequence);
    stdin.setRawMode(false);
    stdin.pause();
  };
  const suspend = (): void => {
    restore();
    process.once("SIGCONT", () => {
      if (!isOpen) return;
      enter();
      notifier(resized)();
    });
    process.kill(process.pid, "SIGTSTP");
  };
  /** Delivers the oldest buffered key. Returns `false` if there is no key or no listener. */
  const deliverKey = (): boolean => {
    const key = listener === null ? undefined : bufferedKeys.shift();
    if (key !== undefined) listener?.(key);
    return key !== undefined;
  };
  const onKey = (typed: string | undefined, { name = "", ctrl, meta, shift }: NodeKey): void => {
    const key: Key = { name, text: typed ?? "", ctrl, meta, shift };
    if (ctrl && name === "z") suspend();
    else {
      bufferedKeys.push(key);
      deliverKey();
    }
  };
  const onResize = notifier(resized);
  const onStop = notifier(gone);
  const onGone = (): void => {
    isConnected = false;
    onStop();
  };
  emitKeypressEvents(stdin);
  stdin.on("keypress", onKey);
  stdin.on("end", onGone);
  stdin.on("error", onGone);
  stdout.on("resize", onResize);
  stdout.on("error", onGone);
  process.on("SIGTERM", onStop);
  process.on("SIGHUP", onGone);
  process.on("exit", restore);
  enter();
  return {
    // Some terminals report 0.
    columns: () => stdout.columns || 80,
    rows: () => stdout.rows || 24,
    write: (text) => void (isConnected && stdout.write(text)),
    listen: (next) => {
      listener = next;
      // One key at a time: a key may remove the listener.
      while (deliverKey());
    },
    onResize: (added) => add(resized, added),
    onGone: (added) => add(gone, added),
    close: () => {
      if (!isOpen) return;
      isOpen = false;
      stdin.off("keypress", onKey);
      stdin.off("end", onGone);
      stdout.off("resize", onResize);
      process.off("SIGTERM", onStop);
      // A closing terminal sends SIGHUP more than once. The listener stays, so that the second one does not end the
      // process while it releases its turns.
      if (isConnected) process.off("SIGHUP", onGone);
      process.off("exit", restore);
      restore();
    },
  };
}

function add(listeners: Set<() => void>, added: () => void): () => void {
  listeners.add(added);
  return () => void listeners.delete(added);
}

function notifier(listeners: ReadonlySet<() => void>): () => void {
  return () => {
    for (const listener of listeners) listener();
  };
}

type NodeKey = {
  readonly name?: string | undefined;
  readonly ctrl: boolean;
  readonly meta: boolean;
  readonly shift: boolean;
};
