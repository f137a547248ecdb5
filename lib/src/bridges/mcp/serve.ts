// Serves engines and durable sessions as an MCP server, over HTTP and stdio, in the protocol versions of the SDK.
//
//   agents     each is a tool with one argument, `message`: it runs a turn of the engine in memory and returns the
//              answer
//   sessions   the tools of session-tools.ts, and each session as a resource `everturn://sessions/ID`
//
// A client that cancels its request cancels the turn. A server object of the SDK serves one HTTP request or one stdio
// connection, and holds no state between them: what a session waits for is in its storage.

import type { Engine } from "../../core/engine/internal.ts";
import type { Closeable, JsonObject } from "../../core/model/internal.ts";
import type { SessionsOfCaller } from "./types.ts";
import type {
  CallToolResult,
  InputRequiredResult,
  McpRequestContext,
  Server,
  ServerContext,
  Tool as SdkTool,
} from "@modelcontextprotocol/server";

import { closeable, invalidArgument, isEverturnError, MisuseError } from "../../core/model/internal.ts";
import { isPlainObject, jsonObject, object, readOrNull, required, string } from "../../core/model/parse/reading.ts";
import { stream } from "../../core/run/internal.ts";
import { loadServer, loadServerStdio } from "./sdk.ts";
import { failed, progressOf } from "./server-answer.ts";
import { SessionTools } from "./session-tools.ts";

/** Options of {@link mcpHandler} and {@link serveMcpStdio}. */
type McpServeOptions = {
  /** The name that clients see. Default: `everturn`. */
  readonly name?: string;
  /** The version that clients see. Default: `1.0.0`. */
  readonly version?: string;
  /** Instructions for the model of the client. Default: none. */
  readonly instructions?: string;
  /**
   * Engines by the name of their tool: 1 to 64 letters, digits, underscores and hyphens. Turns run in memory. Default:
   * none.
   */
  readonly agents?: { readonly [tool: string]: McpAgent };
  /** Durable sessions: a runtime, or that of one tenant. Default: none. */
  readonly sessions?: SessionsOfCaller;
  /**
   * `true`: clients get the tool `decide_tool_call`, which approves and denies pending calls of `sessions`. The model
   * of the client calls this tool, so whoever controls that model, also by a text that it reads, can approve calls that
   * need the approval of a person. Without it, users of clients that can ask (elicitation) decide, and for other
   * clients a call waits until a person decides elsewhere, for example in the studio. Default: false.
   */
  readonly decisionTool?: boolean;
  /** Called for unexpected errors, whose text clients do not get. Default: they are ignored. */
  readonly onError?: (error: unknown) => void;
};

/** An engine that is served as a tool. */
type McpAgent = {
  readonly engine: Engine;
  /** Tells the model of the client what the agent does. */
  readonly description: string;
};

/** Options of {@link mcpHandler}. */
export type McpHandlerOptions = McpServeOptions & {
  /**
   * Authenticates a request. `false`: it is answered with 401. An object: the sessions of this caller, in place of
   * `sessions`. An error that it throws is answered with 500 and reported to `onError`. Default: every request is
   * accepted, so the endpoint must not be reachable by others.
   */
  readonly authorize?: (request: Request) => boolean | SessionsOfCaller | Promise<boolean | SessionsOfCaller>;
  /**
   * Allowed host names of the header `Host` and of the header `Origin`, without port. Rejecting others prevents DNS
   * rebinding. Default: `localhost`, `127.0.0.1`, `[::1]`.
   */
  readonly hosts?: readonly string[];
};

/** An MCP endpoint, built by {@link mcpHandler}. */
export type McpHandler = Closeable & {
  /** Answers one HTTP request. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** Aborts the requests that are running. */
  readonly close: () => Promise<void>;
};

/**
 * Builds an MCP endpoint (Streamable HTTP) as a function of a `Request`. Rejects with `MisuseError` if there is nothing
 * to serve or a tool name is invalid, and with `EngineError` if the package `@modelcontextprotocol/server` cannot be
 * loaded.
 */
export async function mcpHandler(options: McpHandlerOptions): Promise<McpHandler> {
  const { authorize, hosts } = options;
  checkOptions(options, authorize !== undefined);
  const sdk = await loadServer();
  const allowedHosts = hosts ?? ["localhost", "127.0.0.1", "[::1]"];
  // Passed through the SDK by the identity of the object: the sessions of the caller of a request.
  const sessionsOf = new WeakMap<object, SessionsOfCaller>();
  const handler = sdk.createMcpHandler(({ authInfo }: McpRequestContext) => {
    const sessions = (authInfo === undefined ? undefined : sessionsOf.get(authInfo)) ?? options.sessions;
    return createServer(sdk, { ...options, ...(sessions === undefined ? {} : { sessions }) });
  });
  return closeable({
    fetch: async (request) => {
      if (!isAllowedHost(request, allowedHosts)) return new Response("this host is not allowed", { status: 403 });
      let caller: unknown;
      try {
        caller = authorize === undefined ? true : await authorize(request);
      } catch (error) {
        options.onError?.(error);
        return new Response(null, { status: 500 });
      }
      if (caller === true) return handler.fetch(request);
      // Also for values that only a program without a compiler returns: a missing caller must not get `sessions`.
      if (!isSessions(caller)) return new Response(null, { status: 401, headers: { "www-authenticate": "Bearer" } });
      const authInfo = { token: "", clientId: "", scopes: [] };
      sessionsOf.set(authInfo, caller);
      return handler.fetch(request, { authInfo });
    },
    close: () => handler.close(),
  } satisfies Omit<McpHandler, keyof Closeable>);
}

function isSessions(value: unknown): value is SessionsOfCaller {
  return typeof value === "object" && value !== null && typeof Reflect.get(value, "start") === "function";
}

/**
 * Whether the headers `Host` and `Origin` name an allowed host. A request that was built in this process has no header
 * `Host`, and is judged by its URL. A page of another site that reaches this endpoint through DNS rebinding has its own
 * host name in both headers.
 */
function isAllowedHost({ headers, url }: Request, allowed: readonly string[]): boolean {
  const origin = headers.get("origin");
  const named = [`http://${headers.get("host") ?? new URL(url).host}`, ...(origin === null ? [] : [origin])];
  return named.every((address) => URL.canParse(address) && allowed.includes(new URL(address).hostname));
}

/**
 * Serves one client over the standard input and output of this process. Write nothing else to the standard output.
 * Rejects as {@link mcpHandler}.
 */
export async function serveMcpStdio(
  options: McpServeOptions,
): Promise<Closeable & { readonly close: () => Promise<void> }> {
  checkOptions(options, false);
  const sdk = await loadServer();
  const { serveStdio } = await loadServerStdio();
  const server = serveStdio(() => createServer(sdk, options));
  return closeable({ close: () => server.close() });
}

function checkOptions({ agents = {}, sessions }: McpServeOptions, hasCallers: boolean): void {
  const names = Object.keys(agents);
  const invalid = names.find((name) => !/^[A-Za-z0-9_-]{1,64}$/.test(name));
  if (invalid !== undefined) {
    throw invalidArgument(`agents: "${invalid}" is not a tool name: 1 to 64 letters, digits, underscores and hyphens`, [
      "agents",
      invalid,
    ]);
  }
  const taken = names.find((name) => sessions !== undefined && SessionTools.names.includes(name));
  if (taken !== undefined) throw invalidArgument(`agents: "${taken}" is a tool of sessions`, ["agents", taken]);
  if (names.length === 0 && sessions === undefined && !hasCallers) {
    throw new MisuseError("missing_field", "an MCP server needs agents or sessions");
  }
}

type Sdk = Awaited<ReturnType<typeof loadServer>>;

function createServer(
  sdk: Sdk,
  {
    name = "everturn",
    version = "1.0.0",
    instructions,
    agents = {},
    sessions,
    decisionTool = false,
    onError,
  }: McpServeOptions,
): Server {
  const capabilities = { tools: {}, ...(sessions === undefined ? {} : { resources: {} }) };
  const server = new sdk.Server(
    { name, version },
    { capabilities, ...(instructions === undefined ? {} : { instructions }) },
  );
  const sessionTools =
    sessions === undefined
      ? null
      : new SessionTools(sdk, sessions, decisionTool, (context) => canAsk(sdk, server, context));
  const agentTools = Object.entries(agents).map(([tool, { description, engine }]) =>
    agentTool(tool, description, engine),
  );
  server.setRequestHandler("tools/list", () => ({ tools: [...agentTools, ...(sessionTools?.tools ?? [])] }));
  server.setRequestHandler("tools/call", async ({ params }, context) => {
    const args = readOrNull(jsonObject, params.arguments) ?? {};
    const agent = Object.hasOwn(agents, params.name) ? agents[params.name] : undefined;
    try {
      if (agent !== undefined) return await runAgent(agent, args, context);
      const answer = await sessionTools?.call(params.name, args, context);
      if (answer !== undefined && answer !== null) return answer;
    } catch (error) {
      if (isEverturnError(error) || error instanceof MisuseError) return failed(error.message);
      // The text of an unexpected error may contain data that is not meant for clients.
      onError?.(error);
      return failed("the server could not run the tool");
    }
    throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, `there is no tool ${params.name}`);
  });
  if (sessionTools !== null) {
    /** Keeps the text of an unexpected error from clients: the SDK would send it. */
    const guarded = async <T>(work: Promise<T>): Promise<T> => {
      try {
        return await work;
      } catch (error) {
        if (isEverturnError(error) || error instanceof MisuseError || error instanceof sdk.ProtocolError) throw error;
        onError?.(error);
        throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, "the server could not read the sessions");
      }
    };
    server.setRequestHandler("resources/list", ({ params }) => guarded(sessionTools.listResources(params?.cursor)));
    server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: [SessionTools.template] }));
    server.setRequestHandler("resources/read", ({ params }) => guarded(sessionTools.readResource(params.uri)));
  }
  return server;
}

/**
 * Whether the client can ask its user: by the envelope of the request (2026-07-28), or by the handshake (versions
 * before).
 */
function canAsk(sdk: Sdk, server: Server, { mcpReq: { envelope } }: ServerContext): boolean {
  // The type of the envelope lists no keys.
  const declared: unknown = Reflect.get(envelope ?? {}, sdk.CLIENT_CAPABILITIES_META_KEY);
  const capabilities = isPlainObject(declared) ? declared : (server.getClientCapabilities() ?? {});
  return Reflect.get(capabilities, "elicitation") !== undefined;
}

const messageShape = object<{ readonly message: string }>({ message: required(string) });
const messageSchema = {
  type: "object" as const,
  properties: { message: { type: "string" as const, description: "The task or the message for the agent." } },
  required: ["message"],
};

function agentTool(name: string, description: string, { tools }: Engine): SdkTool {
  // An agent without tools has no effect on its environment.
  return { name, description, inputSchema: messageSchema, annotations: { readOnlyHint: tools.length === 0 } };
}

/** Runs a turn in memory. A turn that would wait for a person fails: nothing could continue it. */
async function runAgent(
  { engine }: McpAgent,
  args: JsonObject,
  context: ServerContext,
): Promise<CallToolResult | InputRequiredResult> {
  const sent = readOrNull(messageShape, args);
  if (sent === null) return failed("the argument message has to be a text");
  const run = stream(engine, sent.message, { signal: context.mcpReq.signal });
  const report = progressOf(context);
  for await (const event of run) if (event.type === "tool_execution_started") await report(`tool ${event.name}`);
  const { outcome, finalResponse, pendingQuestion } = await run.result;
  const text = finalResponse?.outputText ?? "";
  if (outcome.type === "assistant_message") {
    const output = finalResponse?.output?.value;
    const structured =
      typeof output === "object" && output !== null && !Array.isArray(output)
        ? { structuredContent: { ...output } }
        : {};
    return { content: [{ type: "text", text }], ...structured };
  }
  if (pendingQuestion !== null) return failed(`the agent asks: ${pendingQuestion}`);
  if ("failure" in outcome && outcome.failure !== null) return failed(outcome.failure.message);
  return failed(`the turn ended with ${outcome.type}${text === "" ? "" : `: ${text}`}`);
}
