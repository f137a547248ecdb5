// A connection to an MCP server, and the tools of the server as Everturn tools.
//
// Theory of operation
//   The connection is opened with the first use and kept. When it is lost (the process of a stdio server ended, the
//   server forgot the session), the next use opens another one; a call that was running is handled by its replay policy
//   (tool-call.ts). Handlers of tools refer to this object and not to a connection, so a tool stays valid across
//   reconnects, and a durable turn that another process continues finds the tool by its name.
//
// Invariants
//   1. There is at most one connection attempt at a time; all users wait for it.
//   2. After `close` nothing connects again, and a connection attempt that is running ends.
//   3. Annotations that change after the first list of tools only make a tool stricter (names.ts), also after a
//      reconnect.
//   4. A connection attempt, with the question for the protocol version, takes at most `connectTimeoutMs`.

import type { Clock } from "../../core/clock/clock.ts";
import type { Tool, ToolContext } from "../../core/engine/internal.ts";
import type { Closeable, Json, JsonObject, Message } from "../../core/model/internal.ts";
import type { OpenCall } from "./open-call.ts";
import type { CallPorts } from "./tool-call.ts";
import type {
  McpClient,
  McpElicitationResult,
  McpOptions,
  McpPrompt,
  McpResource,
  McpResourceContent,
  McpResourceTemplate,
  McpToolInfo,
} from "./types.ts";
import type {
  Client,
  ElicitResult,
  ListRootsResult,
  OAuthClientProvider,
  Tool as SdkTool,
  Transport,
} from "@modelcontextprotocol/client";

import { systemClock } from "../../core/clock/clock.ts";
import { startTimer } from "../../core/clock/timer.ts";
import { tool } from "../../core/engine/internal.ts";
import { invalidArgument, isJsonArray } from "../../core/model/internal.ts";
import { json, jsonObject, read, readOrNull } from "../../core/model/parse/reading.ts";
import { promptMessages, resourceContents, toolContent } from "./content.ts";
import { readElicitation } from "./elicitation.ts";
import { limitedFetch } from "./limited-fetch.ts";
import { isIncluded, needsApprovalOf, replayOf, SeenAnnotations, toolInfo, toolNames } from "./names.ts";
import { OpenCalls } from "./open-call.ts";
import { sample } from "./sampling.ts";
import { loadClient, loadClientStdio } from "./sdk.ts";
import { ToolCallRun } from "./tool-call.ts";

/** What is sent to servers as the name of this client. */
const clientInfo = { name: "everturn", version: "0.1.0" };

const defaultConnectTimeoutMs = 30_000;

const relatedTask = "io.modelcontextprotocol/related-task";

/** An open connection. */
type Live = { readonly client: Client; readonly calls: OpenCalls; readonly sdk: Sdk };
type Sdk = Awaited<ReturnType<typeof loadClient>>;

/** A call that waits for a person, with the timer that gives it up. */
type Kept = { readonly call: OpenCall; readonly stopTimer: () => void };

/** Implements `McpClient`. */
export class McpConnection implements Omit<McpClient, keyof Closeable> {
  readonly #options: McpOptions;
  readonly #clock: Clock;
  readonly #ports: CallPorts;
  /** The tools of the last list, by name, without output schemas (open-call.ts). */
  readonly #definitions = new Map<string, SdkTool>();
  /** The tools that have asked a question inside a call (open-call.ts). */
  readonly #askingTools = new Set<string>();
  readonly #annotations = new SeenAnnotations();
  readonly #kept = new Map<string, Kept>();
  #live: Promise<Live> | null = null;
  #client: Client | null = null;
  #transport: Transport | null = null;
  #tools: readonly Tool[] = [];
  #isClosed = false;
  /** Aborted by `close`. */
  readonly #closing = new AbortController();

  constructor(options: McpOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#ports = {
      server: this.name,
      elicitation: options.elicitation ?? "question",
      start: async (params, signal) => (await this.#connected()).calls.start(params, signal),
      sleep: (ms, signal) => this.#clock.sleep(ms, signal),
      disconnect: () => this.#disconnect(),
      keep: (id, call) => this.#keep(id, call),
      take: (id) => this.#take(id),
      fulfil: (method, params, { signal }) => this.#fulfil(method, params, signal),
      isInputRequired: (result): result is { readonly requestState?: string } =>
        typeof result === "object" && result !== null && Reflect.get(result, "resultType") === "input_required",
    };
  }

  get name(): string {
    return this.#options.name ?? "mcp";
  }

  get tools(): readonly Tool[] {
    return this.#tools;
  }

  get instructions(): string | null {
    return this.#client?.getInstructions() ?? null;
  }

  get protocolVersion(): string | null {
    return this.#client?.getNegotiatedProtocolVersion() ?? null;
  }

  readonly refresh = async (): Promise<readonly Tool[]> => {
    const { client } = await this.#connected();
    const { connectTimeoutMs: timeout = defaultConnectTimeoutMs } = this.#options;
    const { tools } = await client.listTools(undefined, { cacheMode: "refresh", timeout });
    return this.#setTools(tools);
  };

  readonly listResources = async (): Promise<readonly McpResource[]> => {
    const { client } = await this.#connected();
    const { resources } = await client.listResources();
    return resources.map(({ uri, name, title = null, description = null, mimeType = null }) => ({
      uri,
      name,
      title,
      description,
      mimeType,
    }));
  };

  readonly listResourceTemplates = async (): Promise<readonly McpResourceTemplate[]> => {
    const { client } = await this.#connected();
    const { resourceTemplates } = await client.listResourceTemplates();
    return resourceTemplates.map(({ uriTemplate, name, title = null, description = null, mimeType = null }) => ({
      uriTemplate,
      name,
      title,
      description,
      mimeType,
    }));
  };

  readonly readResource = async (uri: string): Promise<readonly McpResourceContent[]> => {
    const { client } = await this.#connected();
    return resourceContents(await client.readResource({ uri }));
  };

  readonly listPrompts = async (): Promise<readonly McpPrompt[]> => {
    const { client } = await this.#connected();
    const { prompts } = await client.listPrompts();
    return prompts.map(({ name, title = null, description = null, arguments: args = [] }) => ({
      name,
      title,
      description,
      arguments: args.map((argument) => ({
        name: argument.name,
        description: argument.description ?? null,
        required: argument.required ?? false,
      })),
    }));
  };

  readonly getPrompt = async (
    name: string,
    args: { readonly [name: string]: string } = {},
  ): Promise<readonly Message[]> => {
    const { client } = await this.#connected();
    const { messages } = await client.getPrompt({ name, arguments: { ...args } });
    return promptMessages(messages);
  };

  readonly finishAuth = async (callback: URLSearchParams): Promise<void> => {
    const transport = this.#transport;
    if (transport === null || !canFinishAuth(transport)) {
      throw invalidArgument(
        `${this.name}: finishAuth needs a server with a URL and an authProvider, to which a connection was tried`,
      );
    }
    await transport.finishAuth(callback);
    this.#live = null;
  };

  readonly close = async (): Promise<void> => {
    this.#isClosed = true;
    this.#closing.abort();
    for (const id of this.#kept.keys())
      this.#take(id)?.cancel(new DOMException("the connection is closed", "AbortError"));
    await this.#disconnect();
  };

  /** The open connection, or a new one. */
  #connected(): Promise<Live> {
    if (this.#isClosed) return Promise.reject(this.#closedError());
    if (this.#live !== null) return this.#live;
    const live = this.#connect();
    this.#live = live;
    live.catch(() => {
      if (this.#live === live) this.#live = null;
    });
    return live;
  }

  async #connect(): Promise<Live> {
    const {
      protocol = "auto",
      connectTimeoutMs = defaultConnectTimeoutMs,
      elicitation,
      sampling,
      roots,
      onError,
    } = this.#options;
    const sdk = await loadClient();
    const capabilities = {
      ...(elicitation === "off" ? {} : { elicitation: { form: {}, url: {} } }),
      ...(sampling === undefined ? {} : { sampling: {} }),
      ...(roots === undefined ? {} : { roots: {} }),
    };
    const client = new sdk.Client(clientInfo, {
      capabilities,
      inputRequired: { autoFulfill: false },
      versionNegotiation: {
        mode: typeof protocol === "object" ? { pin: protocol.version } : protocol,
        // A program that ignores the question for the version is initialised after it, in the time that is left.
        ...("command" in this.#options.server ? { probe: { timeoutMs: connectTimeoutMs / 2 } } : {}),
      },
      listChanged: { tools: { onChanged: (error, tools) => this.#listChanged(error, tools) } },
    });
    const calls = new OpenCalls(
      { client, sdk, definitions: this.#definitions, askingTools: this.#askingTools },
      this.#clock,
    );
    if (elicitation !== "off") {
      client.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
        const question = readElicitation(params);
        return question === null ? { action: "cancel" } : elicitResult(await calls.ask(question, taskIdOf(mcpReq)));
      });
    }
    if (sampling !== undefined)
      client.setRequestHandler("sampling/createMessage", ({ params }, { mcpReq }) =>
        sample(sampling, params, mcpReq.signal),
      );
    if (roots !== undefined) client.setRequestHandler("roots/list", () => rootsResult(roots));
    const onerror = (error: Error) => onError?.(error);
    const onclose = () => {
      if (this.#client !== client) return;
      this.#client = null;
      this.#live = null;
    };
    Object.assign(client, { onerror, onclose });
    await this.#within(connectTimeoutMs, client, async () => {
      const transport = await createTransport(this.#options, sdk);
      if (this.#isClosed) throw this.#closedError();
      this.#transport = transport;
      await client.connect(transport, { timeout: connectTimeoutMs });
    });
    if (this.#isClosed) {
      await client.close();
      throw this.#closedError();
    }
    this.#client = client;
    return { client, calls, sdk };
  }

  /**
   * Does the work of a connection attempt. If it fails, takes too long or is ended by `close`, the transport is closed,
   * which ends the process of a stdio server.
   */
  async #within(ms: number, client: Client, work: () => Promise<void>): Promise<void> {
    const end = new AbortController();
    const ended = new Promise<never>((_, reject) => {
      end.signal.addEventListener("abort", () => reject(end.signal.reason), { once: true });
    });
    const stopTimer = startTimer(this.#clock, ms, () =>
      end.abort(new Error(`${this.name}: the server did not connect within ${ms} ms`)),
    );
    const { signal } = this.#closing;
    const onClose = () => end.abort(this.#closedError());
    signal.addEventListener("abort", onClose, { once: true });
    try {
      await Promise.race([work(), ended]);
    } catch (error) {
      // Not awaited: a program may take seconds to end.
      void client.close().catch(() => undefined);
      void this.#transport?.close().catch(() => undefined);
      throw error;
    } finally {
      stopTimer();
      signal.removeEventListener("abort", onClose);
    }
  }

  #closedError(): Error {
    return invalidArgument(`${this.name}: the connection was closed`);
  }

  async #disconnect(): Promise<void> {
    const live = this.#live;
    this.#live = null;
    this.#client = null;
    const { client } = (await live?.catch(() => null)) ?? {};
    await client?.close().catch(() => undefined);
  }

  #listChanged(error: Error | null, tools: readonly SdkTool[] | null): void {
    if (error !== null) this.#options.onError?.(error);
    if (tools === null) return;
    this.#setTools(tools);
    this.#options.onToolsChanged?.(this.#tools);
  }

  #setTools(listed: readonly SdkTool[]): readonly Tool[] {
    const uniqueName = toolNames(
      this.#options.prefix ?? "",
      listed.map(({ name }) => name),
    );
    this.#definitions.clear();
    for (const { outputSchema: _, ...definition } of listed) this.#definitions.set(definition.name, definition);
    const infos = this.#annotations.next(listed.map((listedTool) => toolInfo(listedTool, this.#options)));
    this.#tools = listed.flatMap((listedTool, index): readonly Tool[] => {
      const info = infos[index];
      if (info === undefined || !isIncluded(this.#options, info)) return [];
      try {
        return [this.#tool(uniqueName(info.name), info, listedTool)];
      } catch (cause) {
        // One definition that cannot be used must not hide the other tools.
        const why = cause instanceof Error ? cause.message : String(cause);
        this.#options.onError?.(new Error(`${this.name}: the tool "${info.name}" is left out: ${why}`, { cause }));
        return [];
      }
    });
    return this.#tools;
  }

  #tool(name: string, info: McpToolInfo, { inputSchema, outputSchema }: SdkTool): Tool {
    const replay = replayOf(this.#options, info);
    const { timeoutMs } = this.#options;
    const output = readOrNull(jsonObject, outputSchema);
    return tool({
      name,
      description:
        [info.description, info.title, info.name].find((text) => text !== null && text.trim() !== "") ?? name,
      schema: inputSchema,
      ...(output === null ? {} : { outputSchema: output }),
      replay,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      needsApproval: needsApprovalOf(this.#options, info),
      metadata: {
        mcp: { server: this.name, tool: info.name, title: info.title, annotations: { ...info.annotations } },
      },
      toModel: toolContent,
      handler: (args: JsonObject, context: ToolContext) =>
        new ToolCallRun(this.#ports, { name: info.name, replay, output }, args, context).run(),
    });
  }

  /** Keeps a call open that waits for a person, for `keepOpenMs`. */
  #keep(id: string, call: OpenCall): void {
    const giveUp = () => {
      this.#kept.delete(id);
      call.cancel(new DOMException("no answer arrived in time", "TimeoutError"));
    };
    this.#kept.set(id, { call, stopTimer: startTimer(this.#clock, this.#options.keepOpenMs ?? 600_000, giveUp) });
  }

  #take(id: string): OpenCall | null {
    const kept = this.#kept.get(id);
    if (kept === undefined) return null;
    this.#kept.delete(id);
    kept.stopTimer();
    // A call that ended meanwhile, with the server or by its timeout there, cannot take the answer.
    return kept.call.isAsking ? kept.call : null;
  }

  /** Answers a request inside `input_required` that is no question to the user. */
  async #fulfil(method: string, params: Json, signal: AbortSignal): Promise<Json> {
    const result = await this.#answerOf(method, params, signal);
    const parsed = read(json, result);
    if ("value" in parsed) return parsed.value;
    throw new TypeError(`${this.name}: the server asked for ${method}, which this client cannot answer`);
  }

  async #answerOf(method: string, params: Json, signal: AbortSignal): Promise<unknown> {
    const { sampling, roots } = this.#options;
    if (method === "sampling/createMessage" && sampling !== undefined) {
      const { sdk } = await this.#connected();
      if (sdk.isSpecType.CreateMessageRequestParams(params)) return sample(sampling, params, signal);
    }
    return method === "roots/list" && roots !== undefined ? rootsResult(roots) : undefined;
  }
}

/** The id of the task that a request of the server belongs to; `null`: it names none. */
function taskIdOf({
  ["_meta"]: meta,
}: {
  readonly _meta?: { readonly [relatedTask]?: { readonly taskId: string } | undefined } | undefined;
}): string | null {
  return meta?.[relatedTask]?.taskId ?? null;
}

function rootsResult(roots: readonly string[]): ListRootsResult {
  return { roots: roots.map((uri) => ({ uri })) };
}

/**
 * The result in the form of the SDK. The fields of a form are texts, numbers, booleans and lists of texts; the
 * specification has no others.
 */
function elicitResult(result: McpElicitationResult): ElicitResult {
  if (result.action !== "accept") return { action: result.action };
  const content: NonNullable<ElicitResult["content"]> = {};
  for (const [name, value] of Object.entries(result.content ?? {})) {
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") content[name] = value;
    else if (isJsonArray(value)) content[name] = value.filter((item) => typeof item === "string");
  }
  return { action: result.action, content };
}

/** Creates the transport of a connection. */
async function createTransport({ server }: McpOptions, sdk: Sdk): Promise<Transport> {
  if ("transport" in server) {
    const transport = await server.transport();
    if (isTransport(transport)) return transport;
    throw invalidArgument("server.transport has to return a transport of @modelcontextprotocol/client");
  }
  if ("command" in server) {
    const { StdioClientTransport, getDefaultEnvironment } = await loadClientStdio();
    const { command, args = [], env = {}, cwd, stderr = "ignore" } = server;
    return new StdioClientTransport({
      command,
      args: [...args],
      env: { ...getDefaultEnvironment(), ...env },
      stderr,
      ...(cwd === undefined ? {} : { cwd }),
    });
  }
  const { url, headers, authProvider, fetch } = server;
  if (authProvider !== undefined && !isAuthProvider(authProvider)) {
    throw invalidArgument(
      "server.authProvider has to be an AuthProvider or an OAuthClientProvider of @modelcontextprotocol/client",
    );
  }
  return new sdk.StreamableHTTPClientTransport(new URL(url), {
    ...(headers === undefined ? {} : { requestInit: { headers: { ...headers } } }),
    ...(authProvider === undefined ? {} : { authProvider }),
    fetch: limitedFetch(fetch ?? globalThis.fetch),
  });
}

function isTransport(value: object): value is Transport {
  return ["start", "send", "close"].every((name) => typeof Reflect.get(value, name) === "function");
}

function isAuthProvider(value: object): value is OAuthClientProvider {
  return typeof Reflect.get(value, "tokens") === "function" || typeof Reflect.get(value, "token") === "function";
}

function canFinishAuth(value: object): value is { readonly finishAuth: (callback: URLSearchParams) => Promise<void> } {
  return typeof Reflect.get(value, "finishAuth") === "function";
}
