// The handler of an MCP tool: makes the call, answers what the server asks for, and waits durably for a person.
//
// Theory of operation
//   A server asks for input in one of three ways:
//     - result `input_required` (2026-07-28): requests, and an opaque `requestState`. The call is over; it is made
//       again with the responses and the state;
//     - a request inside the call (versions before): the call stays open at the server until the response arrives;
//     - error -32042 (2025-11-25): the user has to open URLs, then the call is made again.
//   A question to a person ends the turn (`askAndResume`). What the handler needs to continue is stored as JSON text,
//   because field names of forms (`password`) must not be taken for credentials in stored settings.
//
// What continues a call after the answer
//   input_required   any process: the responses and the state are stored
//   open call        this process: the call is kept open for `keepOpenMs`. Another process, or later: a call with the
//                    replay policy `safe` is made again and its questions are answered from the stored answers; any
//                    other call ends with `outcome_unknown`, because the server may have acted
//   error -32042     any process: the server refused the call before it acted
//
// A connection that is lost during a call: the call is made again once if its replay policy is `safe`; otherwise it
// ends with `outcome_unknown`.

import type { Directive, ToolContext } from "../../core/engine/internal.ts";
import type { Json, JsonObject, ReplayPolicy } from "../../core/model/internal.ts";
import type { Infer, InferUnion } from "../../core/model/parse/reading.ts";
import type { CallParams, OpenCall } from "./open-call.ts";
import type { McpElicitation, McpElicitationResult, McpOptions } from "./types.ts";
import type { CallToolResult } from "@modelcontextprotocol/client";

import { askAndResume, checkValue, fail } from "../../core/engine/internal.ts";
import { canonicalJson, parseJson, renderIssue, ToolError } from "../../core/model/internal.ts";
import {
  array,
  fallback,
  isPlainObject,
  json,
  jsonObject,
  nullable,
  number,
  object,
  oneOf,
  read,
  readOrNull,
  required,
  settings,
  string,
  variant,
} from "../../core/model/parse/reading.ts";
import { toolValue } from "./content.ts";
import { questionText, readAnswer, readElicitation } from "./elicitation.ts";

/** What a call needs from its connection. */
export type CallPorts = {
  readonly server: string;
  readonly elicitation: NonNullable<McpOptions["elicitation"]>;
  /** Starts a call, and connects first if necessary. */
  readonly start: (params: CallParams, signal: AbortSignal) => Promise<OpenCall>;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Marks the connection as lost, so that the next call connects again. */
  readonly disconnect: () => Promise<void>;
  /** Keeps a call open that waits for an answer. */
  readonly keep: (id: string, call: OpenCall) => void;
  /** Takes a kept call; `null`: another process keeps it, or it was given up. */
  readonly take: (id: string) => OpenCall | null;
  /** Answers a request of the server that is no question: sampling and roots. Rejects if this client cannot. */
  readonly fulfil: (method: string, params: Json, context: ToolContext) => Promise<Json>;
  readonly isInputRequired: (result: unknown) => result is InputRequired;
};

type InputRequired = { readonly inputRequests?: object; readonly requestState?: string };
const answeredFields = { question: required(jsonObject), result: required(jsonObject) };
/** A question inside a call, and its answer. */
type Answered = Infer<typeof answeredFields>;
/** The answers that a call has got, and those of an earlier call that it can still use. */
type Answers = { readonly given: readonly Answered[]; readonly left: readonly Answered[] };

const noAnswers: Answers = { given: [], left: [] };

/** What is stored with a question. */
const savedCases = {
  /** Responses to collect before the call is made again. `key` is the request that the person answers. */
  retry: {
    requestState: fallback(nullable(string), null),
    requests: required(jsonObject),
    responses: required(jsonObject),
    key: required(string),
    /** Whether the responses are sent with the call; not after error -32042. */
    sends: required(oneOf(["responses", "nothing"])),
    round: required(number),
  },
  /** A call that is kept open under `id`, the question it waits for, and the answers that it got before. */
  open: { id: required(string), question: required(jsonObject), answered: required(array(object(answeredFields))) },
};
type Saved = InferUnion<"type", typeof savedCases>;
type Retry = Extract<Saved, { readonly type: "retry" }>;
type Open = Extract<Saved, { readonly type: "open" }>;

const savedShape = variant("type", savedCases);

/** The most rounds of `input_required` in one call. A server that never completes must not occupy a turn for ever. */
const maxRounds = 32;

/**
 * The tool of a call: its name at the server, its replay policy, and the schema of its structured content; `null`: it
 * has none.
 */
type CalledTool = { readonly name: string; readonly replay: ReplayPolicy; readonly output: JsonObject | null };

/** One run of the handler. */
export class ToolCallRun {
  readonly #ports: CallPorts;
  readonly #tool: CalledTool;
  readonly #args: JsonObject;
  readonly #context: ToolContext;
  #hasReconnected = false;

  constructor(ports: CallPorts, tool: CalledTool, args: JsonObject, context: ToolContext) {
    this.#ports = ports;
    this.#tool = tool;
    this.#args = args;
    this.#context = context;
  }

  /** Runs the call, or continues it with the answer of a person. */
  async run(): Promise<unknown> {
    const { answer } = this.#context;
    if (answer === null) return this.#call({}, noAnswers, 0);
    const saved = readSaved(answer.state);
    if (saved === null)
      throw new ToolError("outcome_unknown", { message: `${this.#tool.name}: the stored question cannot be read` });
    return saved.type === "retry" ? this.#answered(saved, answer.text) : this.#continued(saved, answer.text);
  }

  /** Makes the call. */
  async #call(extra: Partial<CallParams>, answers: Answers, round: number): Promise<unknown> {
    const params = { name: this.#tool.name, arguments: this.#args, ...extra };
    return this.#follow(await this.#ports.start(params, this.#context.signal), params, answers, round);
  }

  /** Follows a call until it has a value or has to wait. */
  async #follow(call: OpenCall, params: CallParams, answers: Answers, round: number): Promise<unknown> {
    const { signal, progress } = this.#context;
    call.onProgress = progress;
    const left = [...answers.left];
    const given = [...answers.given];
    for (;;) {
      const event = await call.next(signal);
      if (event.type === "asked") {
        const question = elicitationJson(event.elicitation);
        const at = left.findIndex((earlier) => canonicalJson(earlier.question) === canonicalJson(question));
        const [recorded] = at === -1 ? [] : left.splice(at, 1);
        const result =
          recorded === undefined ? await this.#answerHere(event.elicitation) : elicitationResult(recorded.result);
        if (result === null) {
          const id = crypto.randomUUID();
          this.#ports.keep(id, call);
          return this.#ask(event.elicitation, null, { type: "open", id, question, answered: given });
        }
        given.push({ question, result: { ...result } });
        call.answer(result);
      } else if (event.type === "failed") {
        return this.#failed(event.error, params, { given: [], left: [...given, ...left] }, round);
      } else if (this.#ports.isInputRequired(event.result)) {
        const { inputRequests = {}, requestState = null } = event.result;
        const requests = readOrNull(jsonObject, inputRequests);
        if (requests === null) return fail(`${this.#tool.name}: the server asked for input that cannot be read`);
        const saved: Retry = {
          type: "retry",
          requestState,
          requests,
          responses: {},
          key: "",
          sends: "responses",
          round,
        };
        return this.#collect(saved);
      } else {
        return this.#value(event.result);
      }
    }
  }

  /** The value of a result. Structured content that does not match the schema of the tool is a failure. */
  async #value(result: CallToolResult): Promise<unknown> {
    const structured = read(json, result.structuredContent);
    if (this.#tool.output !== null && result.isError !== true && "value" in structured) {
      const checked = await checkValue(this.#tool.output, structured.value);
      if (!checked.ok) {
        const issues = checked.issues.map(renderIssue).join("; ");
        return fail(`${this.#tool.name}: the structured content does not match its schema: ${issues}`);
      }
    }
    return toolValue(result);
  }

  /** Collects the responses that are missing, and makes the call again. Waits for a person if one has to answer. */
  async #collect(saved: Retry): Promise<unknown> {
    const { requests, requestState, sends, round } = saved;
    if (round >= maxRounds) return fail(`${this.#tool.name}: the server asked for input ${maxRounds} times`);
    let { responses } = saved;
    for (const [key, request] of Object.entries(requests)) {
      if (Object.hasOwn(responses, key)) continue;
      const { method, params } = readRequest(request);
      const elicitation = method === "elicitation/create" ? readElicitation(params) : null;
      const response =
        elicitation === null
          ? await this.#ports.fulfil(method, params, this.#context)
          : await this.#answerHere(elicitation);
      if (elicitation !== null && response === null) return this.#ask(elicitation, null, { ...saved, responses, key });
      responses = { ...responses, [key]: response };
    }
    if (sends === "nothing") return this.#call({}, noAnswers, round + 1);
    const state = requestState === null ? {} : { requestState };
    const answers = Object.keys(responses).length === 0 ? {} : { inputResponses: responses };
    return this.#call({ ...answers, ...state }, noAnswers, round + 1);
  }

  /** Continues after the answer to a request of `input_required`. */
  async #answered(saved: Retry, text: string): Promise<unknown> {
    const elicitation = readElicitation(readRequest(saved.requests[saved.key] ?? null).params);
    if (elicitation === null) return fail(`${this.#tool.name}: the stored question cannot be read`);
    const result = await readAnswer(elicitation, text);
    if ("problem" in result) return this.#ask(elicitation, result.problem, saved);
    if (saved.sends === "nothing" && result.action !== "accept")
      return fail("the user did not open the URL that the server requires");
    return this.#collect({ ...saved, responses: { ...saved.responses, [saved.key]: { ...result } } });
  }

  /**
   * Continues after the answer to a question inside a call: in the kept call, or with a new one if the tool may run
   * twice.
   */
  async #continued(saved: Open, text: string): Promise<unknown> {
    const elicitation = elicitationOf(saved.question);
    if (elicitation === null) return fail(`${this.#tool.name}: the stored question cannot be read`);
    const result = await readAnswer(elicitation, text);
    if ("problem" in result) return this.#ask(elicitation, result.problem, saved);
    const answered = [...saved.answered, { question: saved.question, result: { ...result } }];
    const params = { name: this.#tool.name, arguments: this.#args };
    const call = this.#ports.take(saved.id);
    if (call !== null) {
      call.answer(result);
      return this.#follow(call, params, { given: answered, left: [] }, 0);
    }
    if (this.#tool.replay === "safe") return this.#call({}, { given: [], left: answered }, 0);
    throw this.#unknown("the process that made the call ended, or gave it up, while the server waited for the answer");
  }

  /** A question to a person. The turn ends, and the handler runs again with the answer. */
  #ask(elicitation: McpElicitation, problem: string | null, saved: Saved): Directive {
    return askAndResume(questionText(elicitation, this.#ports.server, problem), {
      state: JSON.stringify(saved),
      opts: readOrNull(settings, { elicitation: elicitationJson(elicitation) }) ?? {},
    });
  }

  /** The answer of this process; `null`: a person has to answer. */
  async #answerHere(elicitation: McpElicitation): Promise<McpElicitationResult | null> {
    const { elicitation: how } = this.#ports;
    if (how === "question") return null;
    return how === "off" ? { action: "cancel" } : how(elicitation);
  }

  /** Handles a failed request: reconnects, asks the user to open URLs, or fails. */
  async #failed(error: unknown, params: CallParams, answers: Answers, round: number): Promise<unknown> {
    const { signal } = this.#context;
    signal.throwIfAborted();
    const { code, message, status, elicitations } = errorFields(error);
    if (code === urlRequired && elicitations.length > 0) {
      const requests = Object.fromEntries(
        elicitations.map((item, index) => [String(index), { method: "elicitation/create", params: item }]),
      );
      return this.#collect({
        type: "retry",
        requestState: null,
        requests,
        responses: {},
        key: "",
        sends: "nothing",
        round,
      });
    }
    // The server does not know the session, or there was no connection: the call did not reach a tool.
    const isRefused =
      status === 404 ||
      (status === 400 && /session/i.test(message)) ||
      code === "NOT_CONNECTED" ||
      message === "Not connected";
    const isLost =
      code === "CONNECTION_CLOSED" || code === "SEND_FAILED" || (error instanceof TypeError && status === null);
    if (!isRefused && !isLost) return fail(message);
    await this.#ports.disconnect();
    const mayRepeat = isRefused || this.#tool.replay === "safe";
    if (!mayRepeat) throw this.#unknown(`the connection to ${this.#ports.server} was lost during the call`);
    if (this.#hasReconnected) return fail(`${this.#ports.server}: ${message}`);
    this.#hasReconnected = true;
    return this.#follow(await this.#restart(params), params, answers, round);
  }

  /** Starts the call on a new connection. A server that is being restarted is tried again with exponential backoff. */
  async #restart(params: CallParams): Promise<OpenCall> {
    const { signal } = this.#context;
    for (let delayMs = firstDelayMs; ; delayMs *= 2) {
      try {
        return await this.#ports.start(params, signal);
      } catch (error) {
        if (delayMs > longestDelayMs) throw error;
        await this.#ports.sleep(delayMs, signal);
      }
    }
  }

  #unknown(why: string): ToolError {
    const message = `${why}, so ${this.#tool.name} may or may not have had an effect; check before calling it again`;
    return new ToolError("outcome_unknown", {
      message,
      toolName: this.#context.toolCall.name,
      toolCallId: this.#context.toolCall.id,
    });
  }
}

/** The delays between attempts to connect again, in milliseconds: 6.3 s in total. */
const firstDelayMs = 100;
const longestDelayMs = 3200;

/** The code of the error "URL elicitation required". */
const urlRequired = -32042;

type ErrorFields = {
  readonly code: unknown;
  readonly message: string;
  readonly status: number | null;
  readonly elicitations: readonly JsonObject[];
};

/** Reads an error of the SDK by its fields: the program may have loaded another copy of it. */
function errorFields(error: unknown): ErrorFields {
  if (!(error instanceof Error)) return { code: null, message: String(error), status: null, elicitations: [] };
  const status: unknown = Reflect.get(error, "status");
  return {
    code: Reflect.get(error, "code"),
    message: error.message,
    status: typeof status === "number" ? status : null,
    elicitations: readOrNull(array(jsonObject), Reflect.get(error, "elicitations")) ?? [],
  };
}

function readSaved(state: Json): Saved | null {
  return typeof state === "string" ? readOrNull(savedShape, parseJson(state)?.value) : null;
}

function readRequest(request: Json): { readonly method: string; readonly params: Json } {
  if (!isPlainObject(request)) return { method: "", params: null };
  const { method, params = {} } = request;
  return { method: typeof method === "string" ? method : "", params: params ?? null };
}

function elicitationJson(elicitation: McpElicitation): JsonObject {
  return { ...elicitation };
}

/** The stored form of a question: the parameters of `elicitation/create` have `requestedSchema`, ours `schema`. */
function elicitationOf({ schema, ...params }: JsonObject): McpElicitation | null {
  return readElicitation(schema === undefined ? params : { ...params, requestedSchema: schema });
}

/** A stored answer. */
function elicitationResult({ action, content }: JsonObject): McpElicitationResult {
  if (action !== "accept") return { action: action === "decline" ? "decline" : "cancel" };
  const fields = readOrNull(jsonObject, content);
  return { action, ...(fields === null ? {} : { content: fields }) };
}
