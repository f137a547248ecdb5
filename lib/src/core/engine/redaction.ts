// Redaction: secrets of a call, in plain and in encoded form, and the redaction hook of the program
// (`configure({ redact })`).
//
// Failures are redacted before they leave the library: providers echo keys in error messages ("Incorrect API key
// provided: sk-…").

import type { Failure } from "../model/internal.ts";

import { adapterFailure } from "../model/internal.ts";
import { failureShape, readOrNull } from "../model/parse/reading.ts";
import { configuration } from "./configure.ts";

/**
 * Where a text appears. `message`: messages in HTTP responses. `event`: events in HTTP streams. `log`: errors that are
 * reported to telemetry. `provider`: texts of a provider in failures and raw chunks, before they are stored. `record`:
 * turn records in HTTP responses; one in which a text was changed may not be replayable.
 */
export type RedactionPlace = "message" | "event" | "log" | "provider" | "record";

/** Returns the text as it may be shown. Called for every string; must be fast and without side effects. */
export type Redact = (text: string, place: RedactionPlace) => string;

/** Secrets of a call: its key, and values of secret headers. */
export type Secrets = string | readonly string[] | null;

/**
 * Shorter secrets are not redacted. They are placeholders such as `none` for servers without authentication, and
 * redacting them would destroy ordinary words of a message.
 */
const shortestSecret = 8;

/** What replaces a text if the redaction hook throws: the text may be secret. */
const notRedactable = "[redaction failed]";

/** Applies the redaction hook of the program. */
export function redacted(text: string, place: RedactionPlace): string {
  const { redact } = configuration();
  if (redact === null) return text;
  try {
    const result: unknown = redact(text, place);
    return typeof result === "string" ? result : notRedactable;
  } catch {
    return notRedactable;
  }
}

/** Returns whether the program has a redaction hook. */
export function hasRedaction(): boolean {
  return configuration().redact !== null;
}

/** Redacts secrets: replaces every occurrence in the text, also encoded ones, with `[key]`. */
export function withoutKey(text: string, secrets: Secrets): string {
  return secretRemover(secrets)(text);
}

/**
 * Redacts the secrets of a call from a failure, in every string value at any depth: message, cause, raw body, metadata.
 * The redaction hook of the program applies too. Returns the same object if nothing was redacted.
 */
export function failureWithoutKey(failure: Failure, secrets: Secrets): Failure {
  const remove = secretRemover(secrets);
  let isRedacted = false;
  const text = JSON.stringify(failure, (key, value: unknown) => {
    if (typeof value !== "string" || key === "type" || key === "reason") return value;
    const shown = redacted(remove(value), "provider");
    if (shown !== value) isRedacted = true;
    return shown;
  });
  if (!isRedacted) return failure;
  return readOrNull(failureShape, JSON.parse(text)) ?? adapterFailure("unknown");
}

/**
 * Returns a function that replaces every occurrence of the secrets with `[key]`: as they are, URL-encoded (once or
 * twice, with digits of either case), escaped as in JSON, in hexadecimal, and in Base64, also inside of a longer
 * encoded text. Nothing of a secret is kept outside of the returned function.
 */
function secretRemover(secrets: Secrets): (text: string) => string {
  const list = secrets === null ? [] : typeof secrets === "string" ? [secrets] : secrets;
  const forms = list.flatMap(formsOf);
  return (text) => forms.reduce((shown, form) => shown.replaceAll(form, "[key]"), text);
}

function formsOf(given: string): readonly string[] {
  const secret = given.trim();
  if (secret.length < shortestSecret) return [];
  const bytes = new TextEncoder().encode(secret);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const base64 = [0, 1, 2].map((offset) => base64Core(bytes, offset));
  const base64url = base64.map((form) => form.replaceAll("+", "-").replaceAll("/", "_"));
  const upperUrls = [encodeURIComponent(secret), new URLSearchParams([["", secret]]).toString().slice(1)];
  const lowerUrls = upperUrls.map((form) => form.replaceAll(/%[0-9A-F]{2}/g, (digits) => digits.toLowerCase()));
  const urls = [...upperUrls, ...lowerUrls];
  const inJson = JSON.stringify(secret).slice(1, -1);
  const escaped = [inJson, inJson.replaceAll("/", "\\/")];
  const all = [
    secret,
    ...urls,
    ...urls.map(encodeURIComponent),
    ...escaped,
    hex,
    hex.toUpperCase(),
    ...base64,
    ...base64url,
  ];
  return [...new Set(all)].filter((form) => form.length >= shortestSecret);
}

/**
 * The Base64 characters that depend on the bytes alone, if the bytes begin `offset` bytes after a multiple of three in
 * the encoded text. `Basic` credentials, for example, contain the secret after a user name.
 */
function base64Core(bytes: Uint8Array, offset: number): string {
  const padded = new Uint8Array(offset + bytes.length);
  padded.set(bytes, offset);
  const encoded = btoa(String.fromCharCode(...padded)).replace(/=+$/, "");
  const first = Math.ceil((offset * 8) / 6);
  const last = Math.floor((padded.length * 8) / 6);
  return encoded.slice(first, last);
}
