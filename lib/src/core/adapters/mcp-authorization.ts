// Tokens for MCP servers that the provider calls (`mcpAuthorization` of an adapter). They are credentials, so they are
// not part of the request, which durable turns store: they are resolved for each call and added to the body that is
// sent.

import type { KeySource } from "../engine/internal.ts";
import type { Json, JsonObject } from "../model/internal.ts";

import { readKey } from "../engine/internal.ts";
import { asObject, listAt } from "../wire/internal.ts";

/** Where the body of an API lists MCP servers. */
export type McpPlace = {
  /** The field with the list. */
  readonly list: string;
  /** The `type` of its entries that are MCP servers; `null`: all are. */
  readonly type: string | null;
  /** The field with the name of the server. */
  readonly name: string;
  /** The field that carries the token. */
  readonly token: string;
};

/** Tokens by the name of the server. */
export type McpTokens = { readonly [server: string]: string };

/**
 * Resolves the tokens of a call. A source without a value adds none. Throws `EngineError` (`missing_key`) if a function
 * throws.
 */
export async function resolveTokens(
  sources: { readonly [server: string]: KeySource },
  provider: string,
): Promise<McpTokens> {
  const tokens: { [server: string]: string } = {};
  for (const [server, source] of Object.entries(sources)) {
    const token = await readKey(source, provider, `mcpAuthorization.${server}`);
    if (typeof token === "string" && token !== "") tokens[server] = token;
  }
  return tokens;
}

/** The body with the tokens of the servers that it names. */
export function withTokens(body: JsonObject, { list, type, name, token }: McpPlace, tokens: McpTokens): JsonObject {
  const entries = listAt(body, list);
  if (entries.length === 0 || Object.keys(tokens).length === 0) return body;
  const authorized = entries.map((entry): Json => {
    const fields = asObject(entry);
    const server = fields?.[name];
    if (fields === null || typeof server !== "string" || !Object.hasOwn(tokens, server)) return entry;
    return type === null || fields["type"] === type ? { ...fields, [token]: tokens[server] ?? "" } : entry;
  });
  return { ...body, [list]: authorized };
}
