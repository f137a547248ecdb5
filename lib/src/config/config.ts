// The configuration of the command `everturn`: engines, tools, storage, authentication, and the settings that flags and
// environment variables have too.
//
// The command reads and checks the file (apps/server/src/config-file.ts, program-config.ts). This folder has no code
// besides `defineConfig`, which returns its argument: a configuration file must not need the code of the command.

import type { McpServerEntry } from "../bridges/mcp/internal.ts";
import type { Engine, Tool, WhenBusy } from "../core/engine/internal.ts";
import type { HostStorage, RuntimeOptions } from "../durable/internal.ts";
import type { Auth, HttpOptions } from "../serve/http/internal.ts";

/**
 * A storage, or a function that opens one. The command calls its method `close`, if it has one, before it exits.
 * `readOnly`: the command only reads, so the storage must not create or migrate tables; pass the option on to
 * `sqliteStorage` or `postgresStorage`.
 */
export type ConfigStorage =
  | HostStorage
  | ((options: { readonly readOnly: boolean }) => HostStorage | Promise<HostStorage>);

/** Options of the durable runtime that a configuration file may set. The command sets the others. */
export type ConfigRuntime = Omit<
  RuntimeOptions,
  "host" | "engines" | "drive" | "durability" | "clock" | "onTurnFailure"
>;

/** Options of the HTTP handler that a configuration file may set. The command sets the others. */
export type ConfigHttp = Pick<
  HttpOptions,
  "allow" | "contentHosts" | "decide" | "inspect" | "limits" | "owns" | "providerFiles" | "records"
> & {
  /**
   * Engines by model name, for OpenAI's chat completions at `/v1` (`openaiCompletions`). Default: the engines of the
   * file, if `completions` is on.
   */
  readonly openai?: { readonly [model: string]: Engine };
};

/**
 * The content of `everturn.config.ts`. Every field is optional. Flags override environment variables, which override
 * this file. Relative paths are relative to the folder of the file.
 */
export type EverturnConfig = {
  /**
   * Engines by name, for every command that runs turns. One of them is named `default`; `--engine` selects another one
   * for `chat` and `run`, and clients of `serve` name one in their requests. An engine without an adapter gets the
   * model of the settings (`model`). Default: one engine, built from the other fields.
   */
  readonly engines?: { readonly [name: string]: Engine };
  /** The name of the engine that `chat` and `run` use. Default: `default`. */
  readonly engine?: string;
  /**
   * Tools, or paths of modules that export tools. They are added to every engine; two tools of one name are an error.
   * Default: none.
   */
  readonly tools?: string | Tool | readonly (string | Tool)[];
  /**
   * MCP servers by name, in the JSON form that MCP clients share. Their tools are added to every engine, with the name
   * of the server and an underscore before their names. `${NAME}` is replaced by a variable of the environment.
   * Programs start in the folder of the file. Default: none.
   */
  readonly mcpServers?: { readonly [name: string]: McpServerEntry };
  /**
   * Where sessions are stored. In place of `database`, which names a SQLite file or a Postgres URL; a file with both is
   * rejected.
   */
  readonly storage?: ConfigStorage;
  /**
   * How `serve` authenticates requests: bearer tokens, a function of the request, or `none`, which is allowed on a
   * loopback address only and refuses requests that a proxy has forwarded. In place of `tokens`; a file with both is
   * rejected. Default: `tokens`.
   */
  readonly auth?: Auth;
  /**
   * `provider:model`, for engines without an adapter. Default: a model of the first provider whose API key is set, else
   * the scripted model `offline:demo`.
   */
  readonly model?: string;
  /** The path of a SQLite file, or a Postgres URL. Default: a file in the data folder of the user. */
  readonly database?: string;
  /** The system prompt of engines that have none; `@FILE` reads a file. Default: none. */
  readonly instructions?: string;
  /**
   * The largest number of model calls in one turn, for engines that have no limit of their own. Default: 32 for the
   * built-in engine, else 8.
   */
  readonly maxTurns?: number;
  /**
   * What happens to a message that arrives while a turn is open, for engines that do not say. Default: `reply` rejects
   * it, `send` and the chat steer.
   */
  readonly whenBusy?: WhenBusy;
  /**
   * Limits of turns as texts, as `--limit` has them: `tenant.concurrency=20`, `engine:default.rate=600/1m`. They
   * replace `runtime.limits`, which has the same as an object. Default: none.
   */
  readonly limits?: string | readonly string[];
  /**
   * Base URLs by provider. A name that is not a known provider is a server with the Chat Completions API. Default:
   * those of the providers.
   */
  readonly baseUrls?: { readonly [provider: string]: string };
  /** The delay between two words of the scripted offline model, in milliseconds. Default: 25. */
  readonly pace?: number;
  /** The address that `serve` listens on. Default: 127.0.0.1. Another address needs `auth` or `tokens`. */
  readonly host?: string;
  /** The TCP port of `serve`; 0: any free port. Default: 4242. */
  readonly port?: number;
  /**
   * Bearer tokens of clients of `serve`: `token` or `tenant:token`, of 16 characters or more. Default: on a loopback
   * address, a token that `serve` creates in the configuration folder of the user.
   */
  readonly tokens?: string | readonly string[];
  /**
   * Proxies in front of `serve` whose `X-Forwarded-For` names the client: addresses, networks such as `10.0.0.0/8`, or
   * `loopback`. Limits by address count by it. Default: none, the header is ignored.
   */
  readonly trustedProxies?: string | readonly string[];
  /** Origins of web pages that may call `serve` (CORS allowlist). Pages in `static` need none. Default: none. */
  readonly cors?: string | readonly string[];
  /** Whether `serve` serves OpenAI's chat completions at `/v1`. Default: false, unless `http.openai` lists engines. */
  readonly completions?: boolean | "on" | "off";
  /** Whether `serve` writes a line for each request. Default: true. */
  readonly requestLog?: boolean | "on" | "off";
  /**
   * A folder whose files `serve` serves without authentication, for example a chat page. A file takes precedence over a
   * route of the API with the same path. Default: none.
   */
  readonly static?: string;
  /** Whether `serve` serves the studio at `/studio/`. Default: true. */
  readonly studio?: boolean | "on" | "off";
  /**
   * Whether `serve` indexes messages, so that they can be searched (`GET /search`), and `migrate` creates the index. A
   * storage of this file has its own option. Default: true.
   */
  readonly search?: boolean | "on" | "off";
  /** Who drives the turns of `serve`: this process, or Restate, which calls it. Default: `here`. */
  readonly drive?: "here" | "restate";
  /** The URL of Restate's ingress. Default: http://127.0.0.1:8080. */
  readonly restateIngress?: string;
  /**
   * Where Restate calls this process: a port, or `host:port`. Default: 127.0.0.1:9080. Another host needs
   * `restateKeys`.
   */
  readonly restateListen?: string | number;
  /** The URL of Restate's admin API, at which `serve` registers itself. Default: it does not. */
  readonly restateAdmin?: string;
  /** The URL that is registered, for example of a proxy. Default: that of the process. */
  readonly restateUri?: string;
  /** Public keys of the Restate servers that may call this process. Default: none. */
  readonly restateKeys?: string | readonly string[];
  /** Options of the durable runtime: leases, retention, limits. */
  readonly runtime?: ConfigRuntime;
  /** Options of the HTTP handler of `serve`. */
  readonly http?: ConfigHttp;
};

/**
 * Types a configuration file: returns its argument. Save the file as `everturn.config.ts` (or `.mjs`) and write
 * `export default defineConfig({ … })`.
 *
 * @example
 * ```ts
 * import { engine, tool } from "everturn";
 * import { defineConfig } from "everturn/config";
 *
 * const now = tool({
 *   name: "now",
 *   description: "Tells the time.",
 *   schema: { type: "object", properties: {} },
 *   handler: () => new Date().toISOString(),
 * });
 * const config = defineConfig({
 *   engines: { default: engine({ instructions: "Be brief.", tools: [now] }) },
 *   database: "sessions.db",
 * });
 * Object.keys(config.engines ?? {}); // => ["default"]
 * ```
 */
export function defineConfig(config: EverturnConfig): EverturnConfig {
  return config;
}
