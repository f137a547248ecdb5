// Turns what a source said into a value of a setting, or says what is wrong with it. A flag and a variable give text, a configuration file gives JSON.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";

/** The settings cannot be used. The message is all there is to say; it holds no token and no key. */
export class SettingsError extends Error {
  override readonly name: string = "SettingsError";
}

/** A token that clients of the server show, and whose sessions it opens. */
export type ServerToken = { readonly tenant: string; readonly token: string };

/** Where a value stands, for errors, and what its paths are relative to. */
export type Origin = { readonly name: string; readonly folder: string };

export function text(value: unknown, { name }: Origin): string {
  if (typeof value === "string" && value.trim() !== "") return value.trim();
  throw new SettingsError(`${name} has to be text, not ${shown(value)}`);
}

export function texts(value: unknown, origin: Origin): readonly string[] {
  return listOf(value, origin).map((item) => text(item, origin));
}

export function file(value: unknown, origin: Origin): string {
  const path = text(value, origin);
  return path === ":memory:" ? path : resolve(origin.folder, path);
}

export function files(value: unknown, origin: Origin): readonly string[] {
  return listOf(value, origin).map((item) => resolve(origin.folder, text(item, origin)));
}

/** Text, or `@FILE` for the text of a file. */
export function instructions(value: unknown, origin: Origin): string {
  const said = text(value, origin);
  if (!said.startsWith("@")) return said;
  const path = resolve(origin.folder, said.slice(1));
  try {
    return readFileSync(path, "utf8").trim();
  } catch (cause) {
    throw new SettingsError(`${origin.name}: cannot read the instructions in ${path}`, { cause });
  }
}

export function count(value: unknown, { name }: Origin): number {
  return whole(value, 1, 1_000_000, `${name} has to be a whole number of 1 or more`);
}

export function port(value: unknown, { name }: Origin): number {
  return whole(value, 0, 65_535, `${name} has to be a port, from 0 (any that is free) to 65535`);
}

/** Milliseconds between words. */
export function pace(value: unknown, { name }: Origin): number {
  return whole(value, 0, 60_000, `${name} has to be a number of milliseconds from 0 to 60000`);
}

function whole(value: unknown, least: number, most: number, rule: string): number {
  const number = typeof value === "string" && /^\d+$/.test(value.trim()) ? Number(value) : value;
  if (typeof number === "number" && Number.isSafeInteger(number) && number >= least && number <= most) return number;
  throw new SettingsError(`${rule}, not ${shown(value)}`);
}

/** Base URLs by provider. */
export function addresses(value: unknown, { name }: Origin): { readonly [provider: string]: string } {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    // What stands here instead may hold a password.
    throw new SettingsError(`${name} has to be an object of addresses by provider: { "ollama": "http://…" }`);
  }
  return Object.fromEntries(
    Object.entries(value).map(([provider, url]: [string, unknown]) => {
      if (typeof url === "string" && /^https?:\/\//.test(url)) return [provider, url];
      throw new SettingsError(`${name}.${provider} has to be an address that begins with http:// or https://`);
    }),
  );
}

/** `TOKEN`, or `TENANT:TOKEN`. What is wrong with one is said without it. */
export function tokens(value: unknown, origin: Origin): readonly ServerToken[] {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  return items.map((item): ServerToken => {
    const [, tenant = "", token = ""] =
      typeof item === "string" ? (/^(?:([^:]*):)?(.+)$/s.exec(item.trim()) ?? []) : [];
    if (token.length < shortestToken || /\s/.test(token)) {
      throw new SettingsError(
        `${origin.name}: a token has to be a text of ${shortestToken} characters or more, without spaces; with a tenant, TENANT:TOKEN`,
      );
    }
    return { tenant, token };
  });
}

/** Shorter ones are guessed. */
const shortestToken = 16;

function listOf(value: unknown, { name }: Origin): readonly unknown[] {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (items.every((item) => typeof item === "string")) return items;
  throw new SettingsError(`${name} has to be text or a list of texts, not ${shown(value)}`);
}

function shown(value: unknown): string {
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  const json = jsonOf(value);
  return json.length > 60 ? `${json.slice(0, 60)}…` : json;
}

/** A value of a configuration module may be one that JSON has no words for. */
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "nothing";
  } catch {
    return Array.isArray(value) ? "such a list" : typeof value === "object" ? "such an object" : `a ${typeof value}`;
  }
}

/** What was thrown, in words; whoever throws may throw anything. */
export function thrownText(thrown: unknown): string {
  try {
    return thrown instanceof Error ? thrown.message : String(thrown);
  } catch {
    return "something that cannot be read";
  }
}
