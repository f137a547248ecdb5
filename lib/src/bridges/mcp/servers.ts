// Several MCP servers, described in the JSON form that MCP clients share:
// `{ "mcpServers": { "files": { "command": "npx", "args": ["…"] }, "web": { "url": "https://…" } } }`.
//
// `${NAME}` and `${NAME:-default}` in texts are replaced by variables of the environment, so that a file contains no
// secrets. A variable that is not set and has no default is an error: an empty token would be sent otherwise.

import type { ReplayPolicy } from "../../core/model/internal.ts";
import type { InferOptional, Shape } from "../../core/model/parse/reading.ts";
import type { McpClient, McpOptions } from "./types.ts";

import { invalidArgument, renderIssue, replayPolicies } from "../../core/model/internal.ts";
import {
  array,
  boolean,
  isPlainObject,
  number,
  object,
  oneOf,
  optional,
  read,
  string,
} from "../../core/model/parse/reading.ts";
import { connectMcp } from "./client.ts";

const texts: Shape<{ readonly [name: string]: string }> = (input, reading) => {
  if (!isPlainObject(input)) return reading.report("invalid_type", "must be an object of texts");
  const entries = Object.entries(input).map(([name, value]) => [name, reading.at(name, string, value)] as const);
  const valid = entries.flatMap(([name, value]) => (typeof value === "string" ? [[name, value] as const] : []));
  return valid.length === entries.length
    ? Object.fromEntries(valid)
    : reading.report("invalid_type", "must be an object of texts");
};

const entryFields = {
  /** How the server is reached. Default: `stdio` with `command`, `http` with `url`. */
  type: optional(oneOf(["stdio", "http", "streamable-http"])),
  /** The program to start. */
  command: optional(string),
  args: optional(array(string)),
  /** Variables for the program, besides `PATH`, `HOME` and similar. */
  env: optional(texts),
  /** The working directory of the program. */
  cwd: optional(string),
  /** The URL of the MCP endpoint. */
  url: optional(string),
  /** Headers of every request. */
  headers: optional(texts),
  /** `true`: the entry is ignored. Default: false. */
  disabled: optional(boolean),
  /** The names of the tools that the model may call. Default: all. */
  include: optional(array(string)),
  /** Whether calls need an approval. Default: by the annotations of each tool. */
  needsApproval: optional(boolean),
  /**
   * What recovery does with a call that was running when the process died. Default: by the annotations of each tool.
   */
  replay: optional(oneOf<ReplayPolicy>(replayPolicies)),
  /** The time limit of a call, in milliseconds. Default: that of the run. */
  timeoutMs: optional(number),
  /**
   * `legacy`: only protocol versions before 2026-07-28, so that a program is started once and not twice. Default:
   * `auto`.
   */
  protocol: optional(oneOf(["auto", "legacy"])),
};
/** One entry of `mcpServers`. It has either `command` or `url`. */
export type McpServerEntry = InferOptional<typeof entryFields>;
const entryShape = object(entryFields);

/** Options of {@link connectMcpServers}. The others apply to every server. */
type McpServersOptions = Omit<McpOptions, "server" | "name" | "prefix" | "include"> & {
  /** Variables for `${NAME}`. Default: those of the process. */
  readonly environment?: { readonly [name: string]: string | undefined };
  /** The working directory of programs whose entry has none. Default: that of this process. */
  readonly cwd?: string;
};

/**
 * Connects to all servers of an object in the form of `mcpServers`. The tools of a server have its name and an
 * underscore as prefix. Rejects with `MisuseError` for an entry that is not valid, and with the error of a server that
 * cannot be reached; connections that were opened are then closed.
 */
export async function connectMcpServers(
  servers: { readonly [name: string]: McpServerEntry },
  options: McpServersOptions = {},
): Promise<readonly McpClient[]> {
  const { environment = process.env, cwd, ...shared } = options;
  const described = Object.entries(servers).flatMap(([name, entry]) => {
    const described = describe(name, entry, environment, cwd);
    return described === null ? [] : [described];
  });
  const connected = await Promise.allSettled(described.map((own) => connectMcp({ ...shared, ...own })));
  const failed = connected.findIndex(({ status }) => status === "rejected");
  const clients = connected.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  if (failed === -1) return clients;
  await Promise.all(clients.map(({ close }) => close()));
  const reason: unknown = Reflect.get(connected[failed] ?? {}, "reason");
  throw new Error(
    `the MCP server ${described[failed]?.name ?? ""} cannot be reached: ${reason instanceof Error ? reason.message : String(reason)}`,
    { cause: reason },
  );
}

/** The options of a client for an entry; `null`: it is disabled. */
function describe(
  name: string,
  given: unknown,
  environment: NonNullable<McpServersOptions["environment"]>,
  folder: string | undefined,
): McpOptions | null {
  const refuse = (problem: string) => invalidArgument(`mcpServers.${name}: ${problem}`, ["mcpServers", name]);
  const parsed = read(entryShape, given);
  if (!("value" in parsed)) throw refuse(parsed.issues.map(renderIssue).join("; "));
  const {
    type,
    command,
    url,
    args = [],
    env = {},
    headers,
    cwd = folder,
    disabled = false,
    ...policies
  } = parsed.value;
  if (disabled) return null;
  const expand = (text: string) =>
    text.replaceAll(
      /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g,
      (_, variable: string, fallbackText: string | undefined) => {
        const value = environment[variable] ?? fallbackText;
        if (value === undefined) throw refuse(`the variable ${variable} is not set`);
        return value;
      },
    );
  const expandAll = (values: { readonly [key: string]: string }) =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key, expand(value)]));
  const named = { name, prefix: `${name}_`, ...policies };
  if (command !== undefined && url === undefined && (type ?? "stdio") === "stdio") {
    const folderOption = cwd === undefined ? {} : { cwd: expand(cwd) };
    return {
      ...named,
      server: { command: expand(command), args: args.map(expand), env: expandAll(env), ...folderOption },
    };
  }
  if (url !== undefined && command === undefined && type !== "stdio") {
    const address = expand(url);
    if (!URL.canParse(address)) throw refuse("the url is not a URL");
    return { ...named, server: { url: address, ...(headers === undefined ? {} : { headers: expandAll(headers) }) } };
  }
  throw refuse("an entry has either command (stdio) or url (http)");
}
