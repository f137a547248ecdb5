// Mutations of lib/src/core/run and lib/src/core/session: the verbs, their streams, tool calls and sessions.

import type { Mutation } from "../mutation.ts";

import { inFile } from "../mutation.ts";

export const runMutations: readonly Mutation[] = [
  ...inFile("lib/src/core/run/turn-stream.ts", [
    {
      rows: ["allm 19"],
      defect: "a run starts when its stream is created",
      from: "    this.#wanted = wanted;\n  }\n",
      to: "    this.#wanted = wanted;\n    this.#start();\n  }\n",
    },
    {
      rows: ["allm 70", "lash 69"],
      defect: "leaving a stream completes the run",
      from: "    running.stop();\n    await running.result.then(",
      to: "    await running.result.then(",
    },
  ]),
  ...inFile("lib/src/core/run/run-lifetime.ts", [
    {
      rows: ["allm 123"],
      defect: "a cancelled run loses the text that was received",
      from: "    const received = this.#collector.partial();\n",
      to: "    const received = null;\n",
    },
  ]),
  ...inFile("lib/src/core/run/folds.ts", [
    {
      rows: ["allm 71", "allm 124"],
      defect: "chat collects without the last step",
      from: "  const result = collector.chatResult();\n",
      to: "  const whole = collector.chatResult();\n  const result = { ...whole, steps: whole.steps.slice(0, -1) };\n",
    },
    {
      rows: ["allm 72"],
      defect: "step collects without the results of its tools",
      from: "  const result = collector.stepResult();\n",
      to: "  const result = { ...collector.stepResult(), toolResults: [] };\n",
    },
    {
      rows: ["allm 43"],
      defect: "generate throws for an error during the stream",
      from: "  const reply = collector.reply();\n",
      to: "  const reply = collector.reply();\n  if (reply.error !== null) throw errorFromFailure(reply.error);\n",
    },
    {
      rows: ["allm 59"],
      defect: "an unknown tool does not fail an awaited step",
      from: 'if (error?.type === "engine_error" && error.reason === "unknown_tool") throw',
      to: 'if (error?.type === "adapter_error" && error.reason === "unknown") throw',
    },
  ]),
  ...inFile("lib/src/core/run/transition-events.ts", [
    {
      rows: ["allm 21", "allm 23", "lash 97"],
      defect: "step_completed is emitted twice",
      from: "            emit(this.#stepCompleted(transition.turn, notice.stepEnded, notice.messages));\n",
      to: "            for (let n = 0; n < 2; n += 1) emit(this.#stepCompleted(transition.turn, notice.stepEnded, notice.messages));\n",
    },
    {
      rows: ["allm 22"],
      defect: "a tool group has no tool_execution_completed",
      from: 'return [completed, { type: "tool_result_encoded", id, ...answer }];',
      to: 'return [{ type: "tool_result_encoded", id, ...answer }];',
    },
    {
      rows: ["allm 24"],
      defect: "step_completed has no manual calls",
      from: 'return { type: "step_completed", response, thread, mode, manualToolCalls, pendingToolCalls, suspendedCell, usage };',
      to: 'return { type: "step_completed", response, thread, mode, manualToolCalls: manualToolCalls.slice(0, 0), pendingToolCalls, suspendedCell, usage };',
    },
    {
      rows: ["allm 67"],
      defect: "a failed run has no steps",
      from: "      steps: [...this.#steps],\n",
      to: '      steps: "failure" in outcome ? [] : [...this.#steps],\n',
    },
    {
      rows: ["allm 66"],
      defect: "a halted run has no result of the tool",
      from: "return { haltToolCallId: outcome.toolCallId, haltResult: outcome.value };",
      to: "return { haltToolCallId: outcome.toolCallId };",
    },
  ]),
  ...inFile("lib/src/core/run/perform/model.ts", [
    {
      rows: ["allm 121"],
      defect: "a call is retried after its first output",
      from: "(shown && !retry.afterOutput)",
      to: "(shown && retry.afterOutput)",
    },
  ]),
  ...inFile("lib/src/core/run/perform/model-attempt.ts", [
    {
      rows: ["allm 25"],
      defect: "filters apply below the collector (defect G5)",
      from: "      ports.collector.add(accepted);\n      const isHeld",
      to: "      if (plan.wanted(accepted)) ports.collector.add(accepted);\n      const isHeld",
    },
    {
      rows: ["allm 27"],
      defect: "onEvent sees filtered events only",
      from: "if (onEvent !== undefined) callListener",
      to: "if (onEvent !== undefined && plan.wanted(accepted)) callListener",
    },
    {
      rows: ["allm 41"],
      defect: "the API key of a call is not passed to the adapter",
      from: "      apiKey: plan.apiKey,\n",
      to: "      apiKey: null,\n",
    },
  ]),
  ...inFile("lib/src/core/run/plan/plan.ts", [
    {
      rows: ["allm 26"],
      defect: "usage is filtered with the raw chunks",
      from: 'unwanted.add("raw_chunk");',
      to: 'unwanted.add("raw_chunk").add("usage");',
    },
    {
      rows: ["allm 42"],
      defect: "a missing adapter is reported before misuse",
      from: "  checkCall(engine, callOptions);\n",
      to: '  if (engine.adapter === null) throw new EngineError("missing_adapter", {});\n  checkCall(engine, callOptions);\n',
    },
    {
      rows: ["allm 44"],
      defect: "an input of another type has another reason",
      from: '  throw new ValidationError("invalid_thread", { issues });\n',
      to: '  throw new ValidationError("invalid_request", { issues });\n',
    },
    {
      rows: ["allm 80"],
      defect: "the context of the engine takes precedence over that of the call",
      from: "Object.keys(context).length === 0 ? engine.context : context",
      to: "Object.keys(context).length === 0 ? context : engine.context",
    },
  ]),
  ...inFile("lib/src/core/run/plan/pin.ts", [
    {
      rows: ["allm 69"],
      defect: "structuredFinalize makes no second call",
      from: 'verb === "chat" && wantsFinalize ?',
      to: 'verb !== "chat" && wantsFinalize ?',
    },
    {
      rows: ["allm 40"],
      defect: "the model of the request takes precedence over that of the call",
      from: "model: callOptions.model ?? request?.model ?? null",
      to: "model: request?.model ?? callOptions.model ?? null",
    },
  ]),
  ...inFile("lib/src/core/run/plan/pinned.ts", [
    {
      rows: ["allm 48"],
      defect: "the default of maxConcurrency is 15",
      from: "const defaultMaxConcurrency = 16;",
      to: "const defaultMaxConcurrency = 15;",
    },
  ]),
  ...inFile("lib/src/core/run/plan/plan-options.ts", [
    {
      rows: ["allm 40"],
      defect: "options of the engine take precedence over those of the call",
      from: "[call, session, engine.options, fields]",
      to: "[engine.options, session, call, fields]",
    },
    {
      rows: ["allm 39"],
      defect: "maxTurns is sent to the provider",
      from: "const { maxTurns: _, options: fromEngine = {}, ...settings } = {",
      to: "const { options: fromEngine = {}, ...settings } = {",
    },
    {
      rows: ["allm 56"],
      defect: "an invalid onToolError is accepted",
      from: 'value === "halt" || typeof value === "function"',
      to: 'value === "halt" || value !== null',
    },
    {
      rows: ["allm 63"],
      defect: "maxTurns of the engine's params is ignored",
      from: "toolResultEncoder, ...maxTurnsOf(engine.params) }",
      to: "toolResultEncoder }",
    },
  ]),
  ...inFile("lib/src/core/run/perform/checkpoint.ts", [
    {
      rows: ["allm 64"],
      defect: "haltWhen is not asked",
      from: "(await plan.options.haltWhen?.(step)) === true",
      to: "plan.options.haltWhen === undefined",
    },
    {
      rows: ["lash 45"],
      defect: "the budget of tokens is one token larger",
      from: "usedTokens >= tokens)",
      to: "usedTokens > tokens)",
    },
  ]),
  ...inFile("lib/src/core/run/perform/run-tool.ts", [
    {
      rows: ["allm 122"],
      defect: "the start of a tool is not emitted",
      from: '        void this.#job.emitLive({ type: "tool_execution_started", arguments: this.#args });\n',
      to: "",
    },
    {
      rows: ["allm 49"],
      defect: "the signal of a tool that timed out is not aborted",
      from: "        stop.abort(error);\n",
      to: "",
    },
    {
      rows: ["lash 72"],
      defect: "attempts of a tool are not recorded",
      from: "if (recordedAttempt === null) await scope.record(job.effect.id, attemptName(n), { failure, usage: job.usage });",
      to: "void recordedAttempt;",
    },
    {
      rows: ["lash 71"],
      defect: "calls of a serial tool run in parallel",
      from: 'if (tool?.concurrency !== "serial") return null;',
      to: "if (tool !== undefined) return null;",
    },
  ]),
  ...inFile("lib/src/core/run/perform/tool-answer.ts", [
    {
      rows: ["allm 53"],
      defect: "a handler that throws has the reason of a failure that a handler returned",
      from: 'toolFailure("handler_raised", { message, cause })',
      to: 'toolFailure("handler_failed", { message, cause })',
    },
    {
      rows: ["allm 54"],
      defect: "a tool may halt with a reserved reason",
      from: "return knownHaltedReasons.some((reserved) => reserved === reason);",
      to: "return reason === null;",
    },
    {
      rows: ["allm 55"],
      defect: "a function that throws does not halt the run",
      from: 'this.#invalid("onToolError threw", { onToolErrorRaised: true }, error), true)',
      to: 'this.#invalid("onToolError threw", { onToolErrorRaised: true }, error), false)',
    },
    {
      rows: ["allm 58"],
      defect: "the encoder is called for its own failure",
      from: 'if (failure.reason !== "encoding_failed") return',
      to: "if (failure.reason !== null) return",
    },
    {
      rows: ["allm 65"],
      defect: "the options of a question are lost",
      from: 'outcome: { type: "ask_user", question, answerAs, opts },',
      to: 'outcome: { type: "ask_user", question, answerAs, opts: opts === null ? opts : {} },',
    },
  ]),
  ...inFile("lib/src/core/run/perform/encode-result.ts", [
    {
      rows: ["allm 57"],
      defect: "a failure is encoded as its message",
      from: "    : toolFailureText(result.failure);",
      to: "    : result.failure.message;",
    },
  ]),
  ...inFile("lib/src/core/run/perform/tool-job.ts", [
    {
      rows: ["allm 52"],
      defect: "a handler does not get the request id",
      from: "      requestId: plan.requestId,\n",
      to: '      requestId: "",\n',
    },
  ]),
  ...inFile("lib/src/core/run/perform/records.ts", [
    {
      rows: ["lash 77"],
      defect: "a recorded delay starts again",
      from: "const remainingMs = Math.min(recordedDelay.dueAt - clock.now(), recordedDelay.delayMs);",
      to: "const remainingMs = recordedDelay.delayMs;",
    },
  ]),
  ...inFile("lib/src/core/kernel/protocol/chat-protocol.ts", [
    {
      rows: ["allm 46"],
      defect: "the calls of a truncated reply run",
      from: 'if (reply.finishReason === "tool_calls" && message.toolCalls.length > 0) {',
      to: "if (message.toolCalls.length > 0) {",
    },
    {
      rows: ["allm 60"],
      defect: "mode manual runs the tools",
      from: 'if (options.mode === "manual" || options.stopAfter === "reply") {',
      to: 'if (options.stopAfter === "reply") {',
    },
    {
      rows: ["allm 61"],
      defect: "a manual tool is run",
      from: "specOf(context, call) !== undefined && !isManual(context, call)",
      to: "specOf(context, call) !== undefined",
    },
    {
      rows: ["allm 50"],
      defect: "a halt drops the answers of its siblings",
      from: "const answers = [...ran, ...unknown].toSorted(",
      to: "const answers = [...ran.slice(0, 1), ...unknown].toSorted(",
    },
    {
      rows: ["allm 51"],
      defect: "results are in reverse order",
      from: "(left, right) => left.slot - right.slot",
      to: "(left, right) => right.slot - left.slot",
    },
  ]),
  ...inFile("lib/src/core/kernel/collector.ts", [
    {
      rows: ["allm 45"],
      defect: "the message has the text of message_completed instead of the streamed one",
      from: 'typeof message.content === "string" ? this.text : message.content',
      to: "message.content",
    },
    {
      rows: ["allm 47"],
      defect: "a step in manual mode does not say so",
      from: '...(manual ? { mode: "manual" as const } : {}),',
      to: "",
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/actions.ts", [
    {
      rows: ["allm 68"],
      defect: "an empty nudge is sent",
      from: 'structured.nudge === "" ? null :',
      to: 'structured.nudge === "-" ? null :',
    },
  ]),
  ...inFile("lib/src/core/session/verbs.ts", [
    {
      rows: ["allm 73"],
      defect: "start accepts any input",
      from: '  const message = "must be a session, a thread, messages, a message or text";\n',
      to: '  if (input !== undefined) return newSession({ context: engine.context });\n  const message = "must be a session, a thread, messages, a message or text";\n',
    },
    {
      rows: ["allm 74"],
      defect: "reply drops the text",
      from: 'typeof message === "string" ? user(message) : message',
      to: 'typeof message === "string" ? user(`${message}.`) : message',
    },
    {
      rows: ["allm 81"],
      defect: "streamStart does not check the status",
      from: '  checkStatus(session, "start", null);\n',
      to: "",
    },
    {
      rows: ["allm 79"],
      defect: "continue without a message does not run",
      from: "return runSession(engine, { ...session, thread }, options);",
      to: 'if (message === null) throw new MisuseError("invalid_argument", "continue");\n  return runSession(engine, { ...session, thread }, options);',
    },
  ]),
  ...inFile("lib/src/core/session/preconditions.ts", [
    {
      rows: ["allm 75"],
      defect: "start is allowed while a question waits",
      from: 'return verb === "reply" || (verb === "continue" && message?.role === "user");',
      to: 'return verb === "reply" || verb === "start" || (verb === "continue" && message?.role === "user");',
    },
  ]),
  ...inFile("lib/src/core/session/project.ts", [
    {
      rows: ["allm 76"],
      defect: "a failed run leaves no failure in the session",
      from: "metadata: withError(session.metadata, status, result.metadata.error),",
      to: "metadata: session.metadata,",
    },
    {
      rows: ["allm 77"],
      defect: "a step that halts with tool_error leaves the session idle",
      from: 'if (metadata.haltedReason === "tool_error") return "error";',
      to: 'if (metadata.haltedReason === "tool_error") return "idle";',
    },
  ]),
  ...inFile("lib/src/core/session/answers.ts", [
    {
      rows: ["allm 78"],
      defect: "an unknown call id is ignored",
      from: "    const recorded = recordedAnswer(session, id);",
      to: '    if (answer === "result") return { ...session.pendingToolCalls[0]! };\n    const recorded = recordedAnswer(session, id);',
    },
  ]),
  ...inFile("lib/src/core/session/stream-reducer.ts", [
    {
      rows: ["allm 82"],
      defect: "an unfinished step changes the session",
      from: "this.#stepEnded ? applyStepResult(this.#session, result) : this.#session",
      to: "applyStepResult(this.#session, { ...result, metadata: {} })",
    },
  ]),
  ...inFile("lib/src/core/model/message/message.ts", [
    {
      rows: ["allm 84"],
      defect: "restored assistant messages lose their calls (defect G17)",
      from: "  toolCalls: fallback(array(toolCallShape), []),",
      to: "  toolCalls: fallback(() => [], []),",
    },
  ]),
];
