// Durable sessions as MCP tools and resources.
//
//   send_message      starts a session, or sends a message to one; answers its question if it asked one
//   decide_tool_call  approves or denies a pending call; only with `decisionTool`, because the model of the client
//                     calls it
//   get_session       the newest messages and what the session waits for
//
// A turn that waits for a person: if the client can ask its user (elicitation), the question is passed on, with the
// session and the turn as `requestState`. The answer continues the session, with an idempotency key made of that turn,
// so a request that is sent twice answers once. Other clients get the question as the result and answer with another
// call. They do not answer approvals: a person decides elsewhere, and `get_session` returns how the session went on.
// `requestState` is not signed: it grants nothing that `session_id` does not, because the sessions are those of the
// caller.

import type { Json, JsonObject, PendingToolCall, SessionView } from "../../core/model/internal.ts";
import type { Infer } from "../../core/model/parse/reading.ts";
import type { TurnHandle } from "../../durable/internal.ts";
import type { loadServer } from "./sdk.ts";
import type { SessionsOfCaller } from "./types.ts";
import type {
  CallToolResult,
  InputRequests,
  InputRequiredResult,
  ListResourcesResult,
  ReadResourceResult,
  ServerContext,
  Tool as SdkTool,
} from "@modelcontextprotocol/server";

import { approvalText, isFinalizeNudge, messageText, parseJson } from "../../core/model/internal.ts";
import { boolean, nullable, object, optional, readOrNull, required, string } from "../../core/model/parse/reading.ts";
import { failed, progressOf } from "./server-answer.ts";

type Sdk = Awaited<ReturnType<typeof loadServer>>;
type Answer = CallToolResult | InputRequiredResult;

const uriPrefix = "everturn://sessions/";
const newestMessages = 50;

const sentShape = object({
  message: required(string),
  session_id: optional(nullable(string)),
  engine: optional(nullable(string)),
});
const decidedShape = object({
  session_id: required(string),
  tool_call_id: required(string),
  digest: required(string),
  approve: required(boolean),
  reason: optional(string),
});
const getShape = object({ session_id: required(string) });
const askedFields = { session: required(string), turn: required(string) };
type Asked = Infer<typeof askedFields>;
const askedShape = object(askedFields);

const text = (description: string) => ({ type: "string" as const, description });

const outputSchema = {
  type: "object" as const,
  properties: {
    session_id: text("Pass it to continue the session."),
    status: text(
      "idle, completed: the session waits for a message; awaiting_user: for the answer to the question; awaiting_tools: for decisions; error: it failed.",
    ),
    text: text("The answer."),
    question: { type: ["string", "null"], description: "The question that the next message answers." },
    approvals: {
      type: "array",
      items: { type: "object" },
      description: "Tool calls that wait for the decision of a person.",
    },
  },
  required: ["session_id", "status", "text"],
};

/** The tools and resources of the sessions of one caller. */
export class SessionTools {
  static readonly names: readonly string[] = ["send_message", "decide_tool_call", "get_session"];
  static readonly template = { uriTemplate: `${uriPrefix}{id}`, name: "session", mimeType: "application/json" };

  readonly #tools: readonly SdkTool[] = [
    {
      name: "send_message",
      description:
        "Sends a message to an agent and returns its answer. Starts a session, or continues the one with session_id.",
      inputSchema: {
        type: "object",
        properties: {
          message: text("The message, or the answer to the question of the session."),
          session_id: text("The session to continue. Default: a new one."),
          engine: text("The name of the agent of a new session. Default: default."),
        },
        required: ["message"],
      },
      outputSchema,
    },
    {
      name: "decide_tool_call",
      description:
        "Approves or denies a tool call of a session that waits for an approval, and returns how the session continues.",
      inputSchema: {
        type: "object",
        properties: {
          session_id: text("The session."),
          tool_call_id: text("The id of the call in approvals."),
          digest: text("The digest of the call in approvals, as it was shown to the person who decides."),
          approve: { type: "boolean" },
          reason: text("Why the call is denied; the agent reads it."),
        },
        required: ["session_id", "tool_call_id", "digest", "approve"],
      },
      outputSchema,
    },
    {
      name: "get_session",
      description: `Returns the newest ${newestMessages} messages of a session and what it waits for.`,
      inputSchema: { type: "object", properties: { session_id: text("The session.") }, required: ["session_id"] },
      annotations: { readOnlyHint: true },
    },
  ];
  readonly #sdk: Sdk;
  readonly #sessions: SessionsOfCaller;
  /** Whether the client can ask its user. */
  readonly #canAsk: (context: ServerContext) => boolean;
  /** Whether the model of the client may decide (`decisionTool`). */
  readonly #decisionTool: boolean;

  constructor(
    sdk: Sdk,
    sessions: SessionsOfCaller,
    decisionTool: boolean,
    canAsk: (context: ServerContext) => boolean,
  ) {
    this.#sdk = sdk;
    this.#sessions = sessions;
    this.#decisionTool = decisionTool;
    this.#canAsk = canAsk;
  }

  /** The tools that clients can call. */
  get tools(): SdkTool[] {
    return this.#tools.filter(({ name }) => this.#decisionTool || name !== "decide_tool_call");
  }

  /** Runs a tool; `null`: there is none of this name. */
  async call(name: string, args: JsonObject, context: ServerContext): Promise<Answer | null> {
    const asked = readAsked(context.mcpReq.requestState());
    // The state comes from the client, so it does not prove that a user was asked.
    if (asked !== null && !this.#canAsk(context))
      return failed(
        "the client cannot ask its user (elicitation), so this is no answer of a user; nothing was decided",
      );
    switch (name) {
      case "send_message":
        return asked === null ? this.#send(args, context) : this.#answered(asked, context);
      case "decide_tool_call":
        if (!this.#decisionTool) return null;
        return asked === null ? this.#decide(args, context) : this.#answered(asked, context);
      case "get_session":
        return this.#get(args);
      default:
        return null;
    }
  }

  async listResources(after: string | undefined): Promise<ListResourcesResult> {
    const { items, next } = await this.#sessions.list({ limit: 100, ...(after === undefined ? {} : { after }) });
    const resources = items.map(({ id, status }) => ({
      uri: `${uriPrefix}${encodeURIComponent(id)}`,
      name: id,
      description: status,
      mimeType: "application/json",
    }));
    return { resources, ...(next === null ? {} : { nextCursor: next }) };
  }

  async readResource(uri: string): Promise<ReadResourceResult> {
    const view = uri.startsWith(uriPrefix)
      ? await this.#sessions.get(decoded(uri.slice(uriPrefix.length)), { messages: newestMessages })
      : null;
    if (view === null) throw new this.#sdk.ResourceNotFoundError(uri);
    return { contents: [{ uri, mimeType: "application/json", text: JSON.stringify(summary(view)) }] };
  }

  async #send(args: JsonObject, context: ServerContext): Promise<Answer> {
    const sent = readOrNull(sentShape, args);
    if (sent === null) return failed("send_message needs a text in message; session_id and engine are texts");
    const { message, session_id: id = null, engine = null } = sent;
    const turn =
      id === null
        ? await this.#sessions.start(message, engine === null ? {} : { engine })
        : await this.#sessions.reply(id, message);
    return this.#follow(turn, context);
  }

  async #decide(args: JsonObject, context: ServerContext): Promise<Answer> {
    const decided = readOrNull(decidedShape, args);
    if (decided === null) return failed("decide_tool_call needs session_id, tool_call_id, digest and approve");
    const { session_id: id, tool_call_id: callId, digest, approve, reason = null } = decided;
    const decision = approve ? ({ type: "approve", digest } as const) : ({ type: "deny", reason, digest } as const);
    return this.#follow(await this.#sessions.decide(id, callId, decision), context);
  }

  async #get(args: JsonObject): Promise<Answer> {
    const id = readOrNull(getShape, args)?.session_id;
    const view = id === undefined ? null : await this.#sessions.get(id, { messages: newestMessages });
    if (view === null) return failed("there is no such session");
    const found = summary(view);
    return { content: [{ type: "text", text: JSON.stringify(found) }], structuredContent: { ...found } };
  }

  /** Continues a session with the answers of the client's user. */
  async #answered({ session, turn }: Asked, context: ServerContext): Promise<Answer> {
    const { inputResponses } = context.mcpReq;
    const view = await this.#sessions.get(session, { messages: 0 });
    if (view === null) return failed("there is no such session");
    let last: TurnHandle | null = null;
    for (const key of Object.keys(inputResponses ?? {})) {
      const response = this.#sdk.inputResponse(inputResponses, key);
      if (response.kind !== "elicit") continue;
      const { content = {} } = response;
      const idempotency = { key: `mcp/${turn}/${key}` };
      const { answer, approve } = content;
      if (key === "question" && response.action === "accept" && typeof answer === "string") {
        last = await this.#sessions.reply(session, answer, idempotency);
      } else if (key !== "question") {
        const [, digest = "", callId = ""] = /^call:([^:]*):(.*)$/s.exec(key) ?? [];
        const type = response.action === "accept" && approve === true ? "approve" : "deny";
        last = await this.#sessions.decide(session, callId, { type, digest }, idempotency);
      }
    }
    return last === null ? this.#state(session, "") : this.#follow(last, context);
  }

  /** Follows a turn to its end. The client's cancel cancels it. */
  async #follow(turn: TurnHandle, context: ServerContext): Promise<Answer> {
    const { sessionId, turnId } = turn;
    const { signal } = context.mcpReq;
    // Only the turn of this request: another turn of the session may be open.
    const cancel = () => {
      if (turnId !== null) void this.#sessions.cancel(sessionId, { turnId }).catch(() => undefined);
    };
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    try {
      const report = progressOf(context);
      for await (const { event } of turn.events)
        if (event.type === "tool_execution_started") await report(`tool ${event.name}`);
      const { text: answer, failure } = await turn.result;
      if (failure !== null) return failed(`${sessionId}: ${failure.message}`);
      const view = await this.#sessions.get(sessionId, { messages: 0 });
      const requests = view === null || !this.#canAsk(context) ? {} : this.#requests(view);
      if (turnId === null || Object.keys(requests).length === 0) return await this.#state(sessionId, answer);
      const requestState = JSON.stringify({ session: sessionId, turn: turnId });
      return this.#sdk.inputRequired({ inputRequests: requests, requestState });
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  /** The questions of a session that waits, for the client's user. */
  #requests({ session: { pendingQuestion, pendingToolCalls } }: SessionView): InputRequests {
    const requests: InputRequests = {};
    if (pendingQuestion !== null) {
      const requestedSchema = {
        type: "object" as const,
        properties: { answer: { type: "string" as const } },
        required: ["answer"],
      };
      requests["question"] = this.#sdk.inputRequired.elicit({ message: pendingQuestion, requestedSchema });
    }
    for (const call of approvals(pendingToolCalls)) {
      const requestedSchema = {
        type: "object" as const,
        properties: { approve: { type: "boolean" as const } },
        required: ["approve"],
      };
      const message = `Run this call?\n${approvalText(call)}`;
      // The key of a request is all that comes back with its answer, so it carries the digest of what was shown.
      requests[`call:${call.digest}:${call.id}`] = this.#sdk.inputRequired.elicit({ message, requestedSchema });
    }
    return requests;
  }

  async #state(id: string, answer: string): Promise<CallToolResult> {
    const view = await this.#sessions.get(id, { messages: 0 });
    if (view === null) return failed("there is no such session");
    const { status, pendingQuestion, pendingToolCalls } = view.session;
    const calls = approvals(pendingToolCalls);
    const waiting = calls.map(waitingCall);
    const shown = [pendingQuestion ?? answer, waits(id, calls)].filter((part) => part !== "").join("\n");
    return {
      content: [{ type: "text", text: shown === "" ? `The session ${id} is ${status}.` : shown }],
      structuredContent: { session_id: id, status, text: answer, question: pendingQuestion, approvals: waiting },
    };
  }
}

/** The sentence about calls that wait for a decision, for clients that show only the text of a result. */
function waits(id: string, calls: readonly PendingToolCall[]): string {
  return calls.length === 0
    ? ""
    : `The session ${id} waits for a decision about ${calls.map(({ shown }) => shown.name).join(", ")}.`;
}

function approvals(calls: readonly PendingToolCall[]): readonly PendingToolCall[] {
  return calls.filter(
    ({ reason, decision }) => decision === null && (reason === "approval" || reason === "outcome_unknown"),
  );
}

/** A call that waits for an approval, for clients: what would run, and the digest that a decision needs. */
function waitingCall({ id, shown, digest }: PendingToolCall): JsonObject {
  const { name, arguments: args, parents, replay } = shown;
  return { id, name, arguments: args, parents, replay, digest };
}

/** A session for clients: texts of its messages, without tool results and opaque data. */
function summary({ session, length }: SessionView): { readonly [name: string]: Json } {
  const { id, status, pendingQuestion, pendingToolCalls, thread } = session;
  const messages = thread.messages
    .filter((message) => (message.role === "user" && !isFinalizeNudge(message)) || message.role === "assistant")
    .map((message) => ({ role: message.role, text: messageText(message) }))
    .filter((message) => message.text !== "");
  const waiting = approvals(pendingToolCalls).map(waitingCall);
  return { session_id: id, status, question: pendingQuestion, approvals: waiting, length, messages };
}

function readAsked(state: unknown): Asked | null {
  return typeof state === "string" ? readOrNull(askedShape, parseJson(state)?.value) : null;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
