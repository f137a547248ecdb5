// Which files and URLs a caller may put into content: user messages, results of tools, and posts of the other
// protocols. Every route uses this file.
//
// The library fetches no URL of content; the provider of the model does, and some providers run in the operator's
// network. A URL of a private address could reach services there (SSRF, server-side request forgery), and a file id of
// the operator's provider account could belong to another tenant.
//
// Rules
//   1. A URL has the scheme `https:` or `data:`, no user name and no password. The text has no backslash, control or
//      invisible character, and its host is written as `URL` writes it: the provider may use another parser, which
//      would find another host in the same text.
//   2. The host of an `https:` URL is public: no private, loopback, link-local or otherwise reserved address, in any
//      notation, and no name of a local network. With an allowlist (`contentHosts`) it is also one of the listed hosts.
//   3. File ids of a provider need `providerFiles`, and so do URLs of the Gemini API: it reads them as files of the
//      account whose key the request has. Paths of files on this machine are never accepted.
//   4. Parts of a tool result follow the same rules as parts of a message, and have no provider options.
//
// Limits. A public name may resolve to a private address, and the server of a URL may redirect to one. Only the
// provider, which resolves the name and follows the redirect, can check that; the allowlist excludes such hosts.

import type { ContentSource, Json, UserPart } from "../../core/model/internal.ts";

import { MisuseError } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { HttpError } from "./failure.ts";

/** What callers may put into content. */
export type ContentPolicy = {
  /** Allowed hosts in lower case; `*.example.com` allows subdomains. `null`: every public host. */
  readonly hosts: readonly string[] | null;
  /** Whether callers may name files of the provider account by id. */
  readonly providerFiles: boolean;
};

/** The policy of a handler without options. */
export const defaultContentPolicy: ContentPolicy = { hosts: null, providerFiles: false };

/** Builds the policy from the options of the handler. Throws `MisuseError` for a host that is no host name. */
export function contentPolicy(hosts: readonly string[] | undefined, providerFiles: boolean): ContentPolicy {
  const invalid = hosts?.find((host) => typeof host !== "string" || !/^(?:\*\.)?[^\s/:@*]+$/.test(host));
  if (invalid !== undefined) {
    const message = `contentHosts: ${JSON.stringify(invalid)} must be a host name without scheme, port and path; *.example.com allows subdomains`;
    throw new MisuseError("invalid_argument", message, { path: ["contentHosts"] });
  }
  return { hosts: hosts?.map((host) => host.toLowerCase()) ?? null, providerFiles };
}

/** Hosts of the Gemini API. */
const geminiHost = /(?:^|[.-])generativelanguage\.(?:[a-z0-9-]+\.)*googleapis\.com$/;

const noProviderFiles = "be given as base64 or by URL: requests cannot name files of the provider account";

/** Why a URL is rejected, as the end of a sentence that begins with "must"; `null`: it is accepted. */
export function urlProblem(url: string, { hosts, providerFiles }: ContentPolicy): string | null {
  if (/^data:/i.test(url)) return null;
  // The scheme is checked in the text as well: URL parsers ignore leading whitespace and control characters.
  if (!/^https:\/\/[^\s]+$/i.test(url) || !URL.canParse(url)) return "be an https: URL or a data: URL";
  if (/[\\\p{C}\p{Z}]/u.test(url)) return "have no backslash and no control or invisible character";
  const { hostname, username, password } = new URL(url);
  if (username !== "" || password !== "") return "have no user name and no password";
  const host = hostname.toLowerCase().replace(/\.$/, "");
  if (!isPublicHost(host)) return "have a public host";
  if (!providerFiles && geminiHost.test(host)) return noProviderFiles;
  if (hostInText(url) !== hostname) return `have its host in the form ${hostname}`;
  return hosts === null || hosts.some((allowed) => matches(host, allowed)) ? null : "have an allowed host";
}

/** Why the source of an image or a file is rejected; `null`: it is accepted. */
function sourceProblem(source: ContentSource, policy: ContentPolicy): string | null {
  switch (source.type) {
    case "base64":
      return null;
    case "url":
      return urlProblem(source.url, policy);
    case "provider_file":
      return policy.providerFiles ? null : noProviderFiles;
    case "file":
      return "be given as base64 or by URL: requests cannot name files of the server";
  }
}

/** Why a part of a message is rejected; `null`: it is accepted. */
export function partProblem(part: UserPart, policy: ContentPolicy): string | null {
  if (part.type === "text") return null;
  return sourceProblem(part.type === "image" ? part.image.source : part.source, policy);
}

/**
 * Rejects the result of a tool with 400 if it is a list of parts with a file or URL that the caller may not use. Any
 * other value is data, which the model reads as text. `place` is the path of the result in the body.
 */
export function checkToolContent(content: Json, policy: ContentPolicy, place: readonly (string | number)[]): void {
  if (!Array.isArray(content)) return;
  for (const [index, part] of content.entries()) {
    if (!isPlainObject(part)) continue;
    const path = [...place, index];
    if (part["providerOptions"] !== undefined) throw rejected(path, "have no provider options");
    const image = part["image"];
    const holder = part["type"] === "image" && isPlainObject(image) ? image : part["type"] === "file" ? part : null;
    const source = holder?.["source"];
    const problem = isPlainObject(source) ? unreadSourceProblem(source, policy) : null;
    if (problem !== null) throw rejected(path, problem);
  }
}

/** The problem of a source that was not read by its shape. A malformed source is left to the shape. */
function unreadSourceProblem(source: { readonly [name: string]: unknown }, policy: ContentPolicy): string | null {
  const { type, url } = source;
  if (type === "url") return typeof url === "string" ? urlProblem(url, policy) : null;
  if (type === "file") return sourceProblem({ type, path: "" }, policy);
  return type === "provider_file" ? sourceProblem({ type, provider: "", id: "" }, policy) : null;
}

function rejected(path: readonly (string | number)[], problem: string): HttpError {
  return new HttpError("invalid_body", `${path.join(".")} must ${problem}`, { details: { path } });
}

/** The host in the text of a URL, without its port. */
function hostInText(url: string): string {
  const [authority = ""] = url.slice("https://".length).split(/[/?#]/, 1);
  return authority.toLowerCase().replace(/:\d*$/, "");
}

/** Returns whether a host is listed, or a subdomain of a listed `*.` domain. */
function matches(host: string, allowed: string): boolean {
  return allowed.startsWith("*.") ? host.endsWith(allowed.slice(1)) : host === allowed;
}

/**
 * Names that resolve inside of a machine or a network (RFC 6761, RFC 6762, RFC 8375, `.internal`, reserved by ICANN,
 * and those of clusters).
 */
const localNames =
  /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|lan|home|corp|private|home\.arpa|svc|consul|test|invalid|onion)$/;

/** Returns whether a host, as `URL` writes it, is neither a reserved address nor a name of a local network. */
function isPublicHost(host: string): boolean {
  if (host.startsWith("[")) return isPublicIpv6(groupsOf(host.slice(1, -1)));
  // `URL` writes every notation of an IPv4 address, such as 0x7f.1, with four decimal numbers.
  if (/^\d+\.\d+\.\d+\.\d+$/.test(host)) return isPublicIpv4(host.split(".").map(Number));
  // An empty label cannot be resolved, but would hide the last name: `localhost..`.
  return host.includes(".") && !/^\.|\.\.|\.$/.test(host) && !localNames.test(host);
}

/** IANA's special-purpose IPv4 addresses are not public. */
function isPublicIpv4([first = 0, second = 0, third = 0]: readonly number[]): boolean {
  if (first === 0 || first === 10 || first === 127 || first >= 224) return false;
  if (first === 100) return second < 64 || second > 127;
  if (first === 169) return second !== 254;
  if (first === 172) return second < 16 || second > 31;
  if (first === 192)
    return second !== 168 && !(second === 0 && (third === 0 || third === 2)) && !(second === 88 && third === 99);
  if (first === 198) return second !== 18 && second !== 19 && !(second === 51 && third === 100);
  return !(first === 203 && second === 0 && third === 113);
}

/** The eight groups of an IPv6 address, as `URL` writes it: hexadecimal, with at most one `::`. */
function groupsOf(address: string): readonly number[] {
  const [head = "", tail = ""] = address.split("::");
  const [first, last] = [head, tail].map((part) => (part === "" ? [] : part.split(":")));
  const groups = [...(first ?? []), ...Array.from({ length: 8 }, () => "0"), ...(last ?? [])];
  const known = (first?.length ?? 0) + (last?.length ?? 0);
  return groups.toSpliced(first?.length ?? 0, known).map((group) => Number.parseInt(group, 16));
}

/**
 * Only global unicast (2000::/3) is public, without documentation addresses and without tunnels that contain an IPv4
 * address.
 */
function isPublicIpv6(groups: readonly number[]): boolean {
  const [first = 0, second = 0] = groups;
  if (first < 0x2000 || first > 0x3fff) return false;
  const isTunnel = first === 0x2002 || (first === 0x2001 && second < 0x0200);
  return !isTunnel && !(first === 0x2001 && second === 0x0db8) && first !== 0x3fff;
}
