// The default projector: builds the request of a model call from the history and the environment of a turn, and the
// request of a summary, with its prompt.
//
// The request is not stored. It is computed when the effect is performed, and again for a replay or a retry, so the
// projector must be pure.

import type { Environment, HistoryFrame, JsonObject, Message, ModelRequest, Path } from "../../model/internal.ts";
import type { RequestConfig, Turn } from "../machine/turn.ts";
import type { ContextProjector, ProjectorContext, TurnProtocol } from "../protocol/protocol.ts";
import type { HistoryView } from "./prompt.ts";

import { invalidArgument, isAboutStorage, renderIssue, request, system, user } from "../../model/internal.ts";
import { isPlainObject, messageShape, read, requestShape } from "../../model/parse/reading.ts";
import { limitsOf } from "../machine/context-limits.ts";
import { modelEffectId } from "../machine/pending-effects.ts";
import { renderFrame, shortView, viewOf } from "./framed-history.ts";
import { renderHistory, renderPrompt, viewedMessages, wholeView } from "./prompt.ts";
import { itemsOf } from "./shared-list.ts";
import { renderTurnCausesPrompt } from "./turn-cause.ts";

/**
 * The request of a conversation: instructions, the rendered history, the block of turn causes, and the nudge of the
 * structured call. A cause in the block is left out of the history, so that the model does not read it twice.
 */
export const ChatContextProjector: ContextProjector<TurnProtocol> = {
  project({ config, turn, useTools, overrides }: ProjectorContext<TurnProtocol>): ModelRequest {
    const { environment } = turn;
    const active = new Set(turn.turnCauses.map((cause) => cause.id));
    // The common case has no causes and no transient messages and renders only what is new.
    const isPlain = active.size === 0 && turn.transient.length === 0;
    const view = turn.policy.context ? viewOf(turn.contextWindow, turn.policy.context) : wholeView;
    const conversation = isPlain
      ? renderHistory(turn.history, view)
      : renderPrompt(withTransient(turn, view).filter(isOutsideCauseBlock));
    const causes = renderTurnCausesPrompt(turn.turnCauses);
    const nudge = turn.finalize?.nudge ?? null;
    const messages: readonly Message[] = [
      ...instructionsOf(turn),
      ...framed(turn),
      ...conversation,
      ...(causes === null ? [] : [user(causes)]),
      ...(nudge === null ? [] : [nudge]),
    ];
    const scope = {
      sessionId: config.sessionId,
      frameId: framedBy(turn)?.id ?? null,
      requestId: modelEffectId(turn),
    };
    // The constructor would copy the messages. They keep their identity, so that a codec can cache what it encoded by
    // message.
    const compactAt = limitsOf(turn)?.compact?.providerAt ?? null;
    const settings = settingsOf(environment, useTools, overrides);
    return { ...settings, ...(compactAt === null ? {} : { compactAt }), scope, messages };

    function isOutsideCauseBlock({ role, id }: Message): boolean {
      return role !== "event" || id === null || !active.has(id);
    }
  },
};

// The request of each environment without messages, for calls with tools and without overrides. A turn has one
// environment for many steps, and its tools and settings are read once.
const plainSettings = new WeakMap<Environment, ModelRequest>();

/** A request without messages. */
function settingsOf(environment: Environment, useTools: boolean, overrides: JsonObject): ModelRequest {
  const isPlain = useTools && Object.keys(overrides).length === 0;
  const known = isPlain ? plainSettings.get(environment) : undefined;
  if (known !== undefined) return known;
  const settings = request([], {
    toolChoice: "auto",
    ...environment.params,
    ...overrides,
    model: environment.model,
    tools: useTools ? environment.tools : [],
    providerTools: useTools ? environment.providerTools : [],
    ...(useTools ? {} : { toolChoice: "none" }),
  });
  if (isPlain) plainSettings.set(environment, settings);
  return settings;
}

/** The frame of the requests of a turn; `null`: they contain the whole history. */
function framedBy({ policy, contextWindow }: Turn<TurnProtocol>): HistoryFrame | null {
  // Truthiness: a turn that an older release stored has no such field.
  return policy.context ? contextWindow.frame : null;
}

/** The frame, and the pinned messages before its end. */
function framed(turn: Turn<TurnProtocol>): readonly Message[] {
  const frame = framedBy(turn);
  return frame === null ? [] : renderFrame(turn.history, frame);
}

// The system message of each environment. A turn has one environment for many steps, and codecs find what they have
// sent by the identity of messages.
const instructionMessages = new WeakMap<Environment, Message>();

/** The instructions as a message, if there are any. */
function instructionsOf({ environment }: Turn<TurnProtocol>): readonly Message[] {
  const instructions = environment.instructions ?? "";
  if (instructions.trim() === "") return [];
  const message = instructionMessages.get(environment) ?? system(instructions);
  instructionMessages.set(environment, message);
  return [message];
}

/**
 * Returns the request of the model call that a turn waits for, or whose tokens it waits for. Throws `MisuseError` if
 * the turn waits for neither, or if a projector of one's own has returned no request.
 */
export function projectRequest<P extends TurnProtocol>(config: RequestConfig<P>, turn: Turn<P>): ModelRequest {
  const call = turn.phase.type === "awaiting_count" ? turn.phase.call : turn.phase;
  if (call.type !== "awaiting_model") {
    throw invalidArgument(`projectRequest: the turn is ${call.type}, not waiting for a model`);
  }
  const { projector } = config;
  const { useTools, overrides } = call;
  const projected = projector.project({ config, turn, useTools, overrides });
  if (projector !== ChatContextProjector) checkRequest(projector, projected, turn);
  return projected;
}

/** What the model is asked for at the end of the request of a summary. */
export const summaryPrompt = `Older messages of this conversation are about to be replaced by a summary. Write the summary now, for the assistant that continues the conversation. Keep the goals and the constraints of the user, decisions, facts, names, numbers and identifiers exactly as they appear, results of tools that are still needed, what was done, and what is open. Write only the summary, and call no tool.`;

/** Tells the model how long a summary may be: about two words for three tokens, also where a language has long ones. */
function lengthPrompt(maxTokens: number): string {
  return `Write at most ${Math.max(1, Math.floor((maxTokens * 2) / 3))} words.`;
}

/**
 * Returns the request of the summary that a turn waits for. It is the request of the model call with one message more,
 * so the provider finds the prefix in its cache. If that request is too long, it has only the messages that the frame
 * will stand for, with short tool results. Throws `MisuseError` if the turn does not wait for a summary.
 */
export function projectSummaryRequest<P extends TurnProtocol>(config: RequestConfig<P>, turn: Turn<P>): ModelRequest {
  const { phase, policy } = turn;
  if (phase.type !== "awaiting_compaction" || policy.context === null) {
    throw invalidArgument(`projectSummaryRequest: the turn is ${phase.type}, not waiting for a summary`);
  }
  const { useTools, overrides } = phase.call;
  const project = { config, turn: { ...turn, finalize: null }, useTools, overrides };
  const { compactAt: _, ...base } = config.projector.project(project);
  const { instructions = null, model = null, maxTokens = null } = policy.context.compact ?? {};
  const asked = [instructions, phase.instructions, maxTokens === null ? null : lengthPrompt(maxTokens)];
  const prompt = user([summaryPrompt, ...asked.filter((text) => text !== null && text !== undefined)].join("\n\n"));
  const conversation = phase.isTooLong ? [...instructionsOf(turn), ...summarizedPart(turn, phase)] : base.messages;
  return {
    ...base,
    model: model ?? base.model,
    maxTokens: maxTokens ?? base.maxTokens,
    // A forced tool choice or a response format would not let the model write text.
    toolChoice: base.toolChoice === "none" ? "none" : "auto",
    responseFormat: null,
    messages: [...conversation, prompt],
  };
}

/** The frame before, and the messages that the next one will stand for. */
function summarizedPart(
  turn: Turn<TurnProtocol>,
  { from, to }: Extract<Turn["phase"], { readonly type: "awaiting_compaction" }>,
): readonly Message[] {
  return [...framed(turn), ...renderPrompt(viewedMessages(turn.history.entries, to, shortView(from, to)))];
}

/**
 * Throws `MisuseError` unless a projector of one's own has returned a request: the adapter would report its defect as
 * one of the provider. Messages of the history are not read again. Data that only cannot be stored pass, because the
 * request is not stored.
 */
function checkRequest(projector: object, projected: unknown, { history }: Turn<TurnProtocol>): void {
  const stored = new Set<unknown>(itemsOf(history));
  const listed = isPlainObject(projected) ? projected["messages"] : null;
  const messages: readonly unknown[] = Array.isArray(listed) ? listed : [];
  const results = [
    read(requestShape, isPlainObject(projected) && Array.isArray(listed) ? { ...projected, messages: [] } : projected),
    ...messages.map((item, index) => (stored.has(item) ? null : readAt(["messages", index], item))),
  ];
  const issues = results.flatMap((result) => (result === null || "value" in result ? [] : result.issues));
  const wrong = issues.find(({ code }) => !isAboutStorage.has(code));
  if (wrong === undefined) return;
  const message = `projector: the projector ${projectorName(projector)} returned no model request: ${renderIssue(wrong)}`;
  throw invalidArgument(message, wrong.path);
}

function readAt(at: Path, item: unknown) {
  const result = read(messageShape, item);
  if ("value" in result) return result;
  return { issues: result.issues.map((issue) => ({ ...issue, path: [...at, ...issue.path] })) };
}

/** The name and version of a projector, if it has them. */
function projectorName(projector: object): string {
  const name = "name" in projector ? String(projector.name) : "of the configuration";
  return "version" in projector ? `${name} ${String(projector.version)}` : name;
}

/**
 * The messages of a view with the transient messages of the turn inserted at their positions, at its beginning at the
 * earliest. Linear.
 */
function withTransient({ history, transient }: Turn<TurnProtocol>, view: HistoryView): readonly Message[] {
  const messages = viewedMessages(history.entries, history.length, view);
  if (transient.length === 0) return messages;
  const inserts = itemsOf(transient);
  let next = 0;
  const at = (position: number): readonly Message[] => {
    const first = next;
    while ((inserts[next]?.at ?? Number.POSITIVE_INFINITY) <= position) next += 1;
    return inserts.slice(first, next).map(({ message }) => message);
  };
  return messages
    .flatMap((message, index) => [...at(view.from + index), message])
    .concat(at(view.from + messages.length));
}
