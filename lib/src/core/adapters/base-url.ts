// The base URL of an adapter: the option `baseURL`, an environment variable, or the default of the provider, in this
// order. The variables are those of the providers' own SDKs, so that a proxy or a gateway is configured once for all
// programs.

import type { KeyOwner } from "./credentials.ts";

import { environmentVariable } from "../engine/internal.ts";
import { invalidArgument } from "../model/internal.ts";

/**
 * A variable that may hold the base URL. Some SDKs append the version of the API themselves, so their variables do not
 * contain it.
 */
export type BaseURLVariable = {
  readonly name: string;
  /** Appended to a URL that does not end in a version; `""`: the URL is used as it is. */
  readonly path: string;
};

/** Where a server is, and how it gets the key. */
export type KnownServer = KeyOwner & {
  /** The default base URL. */
  readonly baseURL: string;
  /** Environment variables that may hold another base URL, in order. */
  readonly baseURLVariables: readonly BaseURLVariable[];
};

// The servers of the providers, for their adapters of replies, images and embeddings.

export const openaiServer: KnownServer = {
  provider: "openai",
  baseURL: "https://api.openai.com/v1",
  baseURLVariables: [{ name: "OPENAI_BASE_URL", path: "" }],
  auth: "bearer",
  variables: ["OPENAI_API_KEY"],
};

/** The headers that select an organization and a project of OpenAI. */
export function organizationHeaders({
  organization,
  project,
}: {
  readonly organization?: string;
  readonly project?: string;
}): { readonly [name: string]: string } {
  return {
    ...(organization === undefined ? {} : { "openai-organization": organization }),
    ...(project === undefined ? {} : { "openai-project": project }),
  };
}

export const geminiServer: KnownServer = {
  provider: "gemini",
  baseURL: "https://generativelanguage.googleapis.com/v1beta",
  baseURLVariables: [
    { name: "GOOGLE_GEMINI_BASE_URL", path: "/v1beta" },
    { name: "GEMINI_BASE_URL", path: "" },
  ],
  auth: "x-goog-api-key",
  variables: ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
};

/** A server with an API of OpenAI. Its key is optional, in a variable with the name of the server. */
export function compatibleServer(name: string, baseURL: string): KnownServer {
  return {
    provider: name,
    baseURL,
    baseURLVariables: [],
    auth: "bearer",
    variables: [`${name.toUpperCase().replaceAll(/[^A-Z0-9]+/g, "_")}_API_KEY`],
    keyless: true,
  };
}

/**
 * Returns the base URL of an adapter. It is read once, when the adapter is created. Throws `MisuseError` if it is
 * invalid.
 */
export function resolveBaseURL(
  provider: string,
  option: string | undefined,
  { baseURL, baseURLVariables }: { readonly baseURL: string; readonly baseURLVariables: readonly BaseURLVariable[] },
): string {
  if (option !== undefined) return checkBaseURL(provider, option);
  for (const { name, path } of baseURLVariables) {
    const value = environmentVariable(name)?.trim() ?? "";
    if (value === "") continue;
    const url = checkBaseURL(provider, value, name);
    return /\/v\d+(?:alpha|beta)?\d*$/.test(url) ? url : `${url}${path}`;
  }
  return checkBaseURL(provider, baseURL);
}

/**
 * The base URL without trailing slashes. Credentials and queries are refused: the URL is part of error messages and of
 * the route that is stored with replies, so a secret in it would be stored. Throws `MisuseError`.
 */
function checkBaseURL(provider: string, baseURL: string, source = "baseURL"): string {
  const url = URL.canParse(baseURL) ? new URL(baseURL) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw invalidBaseURL(provider, source, "must be a URL that begins with http:// or https://");
  }
  if (url.username !== "" || url.password !== "") {
    throw invalidBaseURL(provider, source, "must not contain a user or a password; use headers");
  }
  if (/[?#]/.test(baseURL))
    throw invalidBaseURL(provider, source, "must not contain a query or a fragment, because paths are appended to it");
  return baseURL.replace(/\/+$/, "");
}

function invalidBaseURL(provider: string, source: string, what: string): Error {
  return invalidArgument(`${provider}: ${source} ${what}`, [source]);
}
