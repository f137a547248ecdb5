// The terminal as a value: keys come in, text goes out. Raw while it is open; whatever ends the program, it is given back as it was.

import type { Key } from "./editor.ts";

import { emitKeypressEvents } from "node:readline";

export type Terminal = {
  readonly columns: () => number;
  readonly rows: () => number;
  readonly write: (text: string) => void;
  /** Who gets the keys from now on; those that came while nobody listened are handed over first. `null`: nobody. */
  readonly listen: (listener: ((key: Key) => void) | null) => void;
  /** Returns what takes the listener off, as the next one does. */
  readonly onResize: (listener: () => void) => () => void;
  /** The terminal went away, or somebody asked the program to stop. */
  readonly onGone: (listener: () => void) => () => void;
  readonly close: () => void;
};

/** Pasted text comes between marks; the cursor is seen. */
const asWeWantIt = "\u001B[?2004h";
const asItWas = "\u001B[?2004l\u001B[?25h\u001B[0m";

/** Opens the terminal of this process. Both streams have to be one. */
export function openTerminal(stdin: NodeJS.ReadStream, stdout: NodeJS.WriteStream): Terminal {
  const resized = new Set<() => void>();
  const gone = new Set<() => void>();
  const waiting: Key[] = [];
  let listener: ((key: Key) => void) | null = null;
  let isOpen = true;
  /** A terminal that was closed cannot be written to, nor given back. */
  let isThere = true;
  const enter = (): void => {
    stdin.setRawMode(true);
    stdin.resume();
    stdout.write(asWeWantIt);
  };
  const give = (): void => {
    if (!isThere) return;
    stdout.write(asItWas);
    stdin.setRawMode(false);
    stdin.pause();
  };
  const suspend = (): void => {
    give();
    process.once("SIGCONT", () => {
      if (!isOpen) return;
      enter();
      tell(resized)();
    });
    process.kill(process.pid, "SIGTSTP");
  };
  /** Hands out the key that has waited longest; whether there was one, and somebody to take it. */
  const handOut = (): boolean => {
    const key = listener === null ? undefined : waiting.shift();
    if (key !== undefined) listener?.(key);
    return key !== undefined;
  };
  const onKey = (typed: string | undefined, { name = "", ctrl, meta, shift }: NodeKey): void => {
    const key: Key = { name, text: typed ?? "", ctrl, meta, shift };
    if (ctrl && name === "z") suspend();
    else {
      waiting.push(key);
      handOut();
    }
  };
  const onResize = tell(resized);
  const onStop = tell(gone);
  const onGone = (): void => {
    isThere = false;
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
  process.on("exit", give);
  enter();
  return {
    // Some terminals say 0.
    columns: () => stdout.columns || 80,
    rows: () => stdout.rows || 24,
    write: (text) => void (isThere && stdout.write(text)),
    listen: (next) => {
      listener = next;
      // The first of them may already be the last that this listener wants.
      while (handOut());
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
      // A terminal that goes says so more than once, and whoever lets turns go needs a moment for it.
      if (isThere) process.off("SIGHUP", onGone);
      process.off("exit", give);
      give();
    },
  };
}

function add(listeners: Set<() => void>, added: () => void): () => void {
  listeners.add(added);
  return () => void listeners.delete(added);
}

function tell(listeners: ReadonlySet<() => void>): () => void {
  return () => {
    for (const one of listeners) one();
  };
}

type NodeKey = {
  readonly name?: string | undefined;
  readonly ctrl: boolean;
  readonly meta: boolean;
  readonly shift: boolean;
};
