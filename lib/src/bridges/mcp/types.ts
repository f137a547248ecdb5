// The public types. They name no type of the SDK: its declaration files need a newer TypeScript than the library
// supports, and the SDK is an optional peer dependency.

import type { Clock } from "../../core/clock/clock.ts";
import type { Engine, Tool } from "../../core/engine/internal.ts";
import type { Attachment, Closeable, JsonObject, Message, ReplayPolicy } from "../../core/model/internal.ts";
import type { Runtime } from "../../durable/internal.ts";

/**
 * How a server is reached: a process that is started (stdio), a URL (Streamable HTTP), or a transport of the caller.
 */
export type McpServer = StdioServer | HttpServer | CustomServer;

type StdioServer = {
  readonly type?: "stdio";
  /** The program to start. */
  readonly command: string;
  readonly args?: readonly string[];
  /**
   * Variables that are added to the few that the SDK passes on (`PATH`, `HOME` and similar). API keys of this process
   * are not passed on.
   */
  readonly env?: { readonly [name: string]: string };
  /** The working directory of the program. Default: that of this process. */
  readonly cwd?: string;
  /** Where the standard error of the program goes. Default: `ignore`. */
  readonly stderr?: "inherit" | "ignore";
};

type HttpServer = {
  readonly type?: "http";
  /** The URL of the MCP endpoint. */
  readonly url: string;
  /** Headers of every request, for example `Authorization`. */
  readonly headers?: { readonly [name: string]: string };
  /**
   * An `OAuthClientProvider` or `AuthProvider` of `@modelcontextprotocol/client`. It stores tokens and starts the
   * authorization. Give providers of the SDK `expectedIssuer`: without it, the client secret is sent to whichever
   * authorization server the MCP server names. Default: none.
   */
  readonly authProvider?: object;
  /** Sends the requests. Default: the platform's `fetch`. */
  readonly fetch?: (url: string | URL, init?: RequestInit) => Promise<Response>;
};

type CustomServer = {
  /** Creates a transport of the SDK, once for each connection. */
  readonly transport: () => object | Promise<object>;
};

/** A tool as the server describes it. */
export type McpToolInfo = {
  /** The name at the server, without prefix. */
  readonly name: string;
  readonly title: string | null;
  readonly description: string | null;
  /**
   * The hints of the server, with the defaults of the specification: not read-only, destructive, not idempotent, open
   * world. After the first list of a client they only become stricter, and a tool that was not in the first list has
   * the defaults.
   */
  readonly annotations: McpAnnotations;
};

/** The annotations of a tool. They are hints: a server may state them wrongly. */
export type McpAnnotations = {
  readonly readOnlyHint: boolean;
  readonly destructiveHint: boolean;
  readonly idempotentHint: boolean;
  readonly openWorldHint: boolean;
};

/** Options of {@link connectMcp}. */
export type McpOptions = {
  /** How the server is reached. */
  readonly server: McpServer;
  /** A name for errors and metadata. Default: `mcp`. */
  readonly name?: string;
  /** A text before the name of every tool, so that tools of two servers differ. Default: none. */
  readonly prefix?: string;
  /** Which tools are offered to the model: names at the server, or a function. Default: all. */
  readonly include?: readonly string[] | ((tool: McpToolInfo) => boolean);
  /**
   * What recovery does with a call that was running when the process died. Default: `safe` for tools that are read-only
   * or idempotent by their annotations, else `never`.
   */
  readonly replay?: ReplayPolicy | ((tool: McpToolInfo) => ReplayPolicy);
  /**
   * Which calls a person must approve. Default: those of tools that may be destructive by their annotations. A tool
   * without annotations may be destructive, as the specification says, and so may one that the server adds after its
   * first list. A server cannot switch an approval off by other annotations later; a new process takes the annotations
   * of its own first list. Set this option for tools whose approval must not depend on the server.
   */
  readonly needsApproval?: boolean | ((tool: McpToolInfo) => boolean);
  /**
   * `false`: annotations of this server are ignored, and the defaults of the specification apply to all of its tools.
   * Default: true.
   */
  readonly trustAnnotations?: boolean;
  /**
   * What happens when the server asks the user (elicitation). `question`: the turn ends with a question, and the next
   * message is the answer, also in another process. A function answers in this process. `off`: this client announces
   * that it cannot ask. Default: `question`.
   */
  readonly elicitation?: "question" | "off" | ((request: McpElicitation) => Promise<McpElicitationResult>);
  /**
   * Servers of protocol versions before 2026-07-28 wait for the answer inside the call: how long this process keeps
   * such a call open, in milliseconds. After that, and in another process, the call is made again if its replay policy
   * is `safe`, and otherwise ends with `outcome_unknown`. Default: 600,000.
   */
  readonly keepOpenMs?: number;
  /**
   * The engine that answers requests of the server for a model call (sampling). Default: none; this client announces
   * none.
   */
  readonly sampling?: Engine;
  /** `file:` URLs of folders that the server may work in (roots). Default: none; this client announces none. */
  readonly roots?: readonly string[];
  /**
   * The protocol versions. `auto` asks the server for 2026-07-28 first, which starts a stdio server twice; `legacy`
   * uses only the versions before it; a version is required. Default: `auto`.
   */
  readonly protocol?: "auto" | "legacy" | { readonly version: string };
  /**
   * The time limit of a call, in milliseconds. The time in which a question waits for its answer does not count.
   * Default: `toolTimeout` of the run, 30 s.
   */
  readonly timeoutMs?: number;
  /** The time limit of a connection attempt, in milliseconds. Default: 30,000. */
  readonly connectTimeoutMs?: number;
  /** Called when the server has reported another list of tools, and the list was read. */
  readonly onToolsChanged?: (tools: readonly Tool[]) => void;
  /** Called for errors that belong to no call, for example of a transport. Default: they are ignored. */
  readonly onError?: (error: Error) => void;
  /** Time and timers. Default: the system clock. */
  readonly clock?: Clock;
};

/** A question of a server to the user. */
export type McpElicitation =
  | { readonly mode: "form"; readonly message: string; readonly schema: JsonObject }
  | { readonly mode: "url"; readonly message: string; readonly url: string };

/** The answer to a question of a server. `content` has the fields of the form. */
export type McpElicitationResult =
  | { readonly action: "accept"; readonly content?: JsonObject }
  | { readonly action: "decline" | "cancel" };

/** A connection to an MCP server. It reconnects when it is used after the connection was lost. */
export type McpClient = Closeable & {
  /** The name of the options. */
  readonly name: string;
  /** The tools of the server, as of the last list that was read. Handlers stay valid when the list changes. */
  readonly tools: readonly Tool[];
  /** The instructions of the server for the model; `null` if there are none. */
  readonly instructions: string | null;
  /** The negotiated protocol version; `null` while there is no connection. */
  readonly protocolVersion: string | null;
  /** Reads the list of tools again. */
  readonly refresh: () => Promise<readonly Tool[]>;
  readonly listResources: () => Promise<readonly McpResource[]>;
  readonly listResourceTemplates: () => Promise<readonly McpResourceTemplate[]>;
  /** Reads a resource: its contents, usually one. */
  readonly readResource: (uri: string) => Promise<readonly McpResourceContent[]>;
  readonly listPrompts: () => Promise<readonly McpPrompt[]>;
  /** Reads a prompt as messages, which `chat` accepts as input. */
  readonly getPrompt: (name: string, args?: { readonly [name: string]: string }) => Promise<readonly Message[]>;
  /** Completes an interactive authorization with the query parameters of the redirect. The next use connects. */
  readonly finishAuth: (callback: URLSearchParams) => Promise<void>;
  /** Closes the connection, and ends the process of a stdio server. Calls that are running fail. */
  readonly close: () => Promise<void>;
};

/** A resource that a server lists. */
export type McpResource = {
  readonly uri: string;
  readonly name: string;
  readonly title: string | null;
  readonly description: string | null;
  readonly mimeType: string | null;
};

/** A family of resources: a URI template (RFC 6570). */
export type McpResourceTemplate = Omit<McpResource, "uri"> & { readonly uriTemplate: string };

/** The content of a resource: `text`, or `attachment` for binary data. */
export type McpResourceContent = {
  readonly uri: string;
  readonly mimeType: string | null;
  readonly text: string | null;
  readonly attachment: Attachment | null;
};

/** A prompt that a server offers. */
export type McpPrompt = {
  readonly name: string;
  readonly title: string | null;
  readonly description: string | null;
  readonly arguments: readonly {
    readonly name: string;
    readonly description: string | null;
    readonly required: boolean;
  }[];
};

/** The verbs of a runtime that MCP clients use. */
export type SessionsOfCaller = Pick<Runtime, "start" | "reply" | "decide" | "cancel" | "get" | "list">;
