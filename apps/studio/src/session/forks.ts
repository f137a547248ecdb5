// Which session a fork was made from, remembered in this browser, so that the fork offers a comparison with its original.

import { readStored, writeStored } from "../shell/stored.ts";

const storedKey = "everturn-forks";
const maxForks = 200;

function forks(): readonly (readonly [fork: string, original: string])[] {
  try {
    const list: unknown = JSON.parse(readStored(storedKey) ?? "[]");
    return Array.isArray(list) ? list.filter(isPair) : [];
  } catch {
    return [];
  }
}

function isPair(value: unknown): value is readonly [string, string] {
  return Array.isArray(value) && value.length === 2 && value.every((id) => typeof id === "string");
}

export function rememberFork(fork: string, original: string): void {
  writeStored(storedKey, JSON.stringify([...forks(), [fork, original]].slice(-maxForks)));
}

/** The session that a session was forked from in this browser; `null`: not known. */
export function originalOf(sessionId: string): string | null {
  return forks().find(([fork]) => fork === sessionId)?.[1] ?? null;
}
