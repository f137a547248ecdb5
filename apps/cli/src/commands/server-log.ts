// The lines that `everturn serve` writes to standard error: one for each request, and one for each turn that this
// process drove without success.
//
// No line contains a secret. Entries of the request log have no body, header or query. The library redacts API keys
// from failures; `redactor` also removes the API keys and server tokens of this process from text that did not come
// from a provider, such as the error of a tool.

import type { Environment, RequestEntry, Settings } from "@everturn/server";
import type { Failure } from "everturn";
import type { TurnFailure } from "everturn/runtime";

import { knownProviders } from "@everturn/server";

import { safeLine } from "../terminal/safe-text.ts";
import { duration } from "./text.ts";

/** The longest text of a failure with its causes, in characters. A provider may return a page of HTML as its error. */
const longestFailure = 2000;
/** Shorter values are placeholders such as `none`, which occur in ordinary text. */
const shortestSecret = 8;

/** `POST /sessions 202 12 ms caller=acme from 127.0.0.1`. */
export function requestLine({ method, path, status, isComplete, durationMs, caller, address }: RequestEntry): string {
  const end = status === null ? "no response" : `${status}${isComplete ? "" : " (aborted)"}`;
  const name = caller === null ? "-" : [caller.tenant, caller.name].filter(Boolean).join("/") || "anonymous";
  return safeLine(`${method} ${path} ${end} ${duration(durationMs)} caller=${name} from ${address || "-"}`);
}

/** `turn turn-1 of session s1 failed: rate_limited: … (status 429); caused by …`. */
export function turnFailureLine({ tenant, sessionId, turnId, status, failure, error }: TurnFailure): string {
  const where = `turn ${turnId} of session ${sessionId}${tenant === "" ? "" : ` of tenant ${tenant}`}`;
  const what = statusText[status];
  const text = `${where} ${what}: ${failure === null ? errorText(error) : failureText(failure)}`;
  return safeLine(text.length > longestFailure ? `${text.slice(0, longestFailure)}…` : text);
}

const statusText: { readonly [S in TurnFailure["status"]]: string } = {
  failed: "failed",
  parked: "parked",
  left: "was left by this process and is tried again",
  call_not_run: "continues, but an approved call did not run",
};

function failureText(failure: Failure): string {
  const { reason, message } = failure;
  const provider = "provider" in failure && failure.provider !== null ? [failure.provider] : [];
  const httpStatus = "status" in failure && failure.status !== null ? [`status ${failure.status}`] : [];
  const facts = [...provider, ...httpStatus];
  let text = `${reason}${message === "" || message === reason ? "" : `: ${message}`}`;
  if (facts.length > 0) text += ` (${facts.join(", ")})`;
  for (let { cause } = failure; cause !== null; { cause } = cause)
    text += `; caused by ${cause.name}: ${cause.message}`;
  return text;
}

function errorText(error: unknown): string {
  const seen = new Set<unknown>();
  const parts: string[] = [];
  for (let cause = error; cause instanceof Error && !seen.has(cause); { cause } = cause) {
    seen.add(cause);
    parts.push(`${cause.name}: ${cause.message}`);
  }
  return parts.length === 0 ? String(error) : parts.join("; caused by ");
}

/**
 * Returns a function that replaces the API keys and server tokens of this process in a text. `ownToken`: that of the
 * token file.
 */
export function redactor(
  { tokens, program }: Settings,
  environment: Environment,
  ownToken: string | null = null,
): (text: string) => string {
  const keys = Object.values(knownProviders).flatMap((provider) =>
    provider.keys.map((name) => environment[name] ?? ""),
  );
  const configTokens = Array.isArray(program.auth) ? program.auth.map(({ token }) => token) : [];
  const serverTokens = tokens.value === "off" ? [] : tokens.value.map(({ token }) => token);
  const secrets = [...serverTokens, ...(ownToken === null ? [] : [ownToken]), ...configTokens, ...keys]
    .map((secret) => secret.trim())
    .filter((secret) => secret.length >= shortestSecret)
    // A secret that contains another one is replaced first.
    .toSorted((left, right) => right.length - left.length);
  return (text) => secrets.reduce((redacted, secret) => redacted.replaceAll(secret, "[redacted]"), text);
}
