// Mutations of lib/src/core/kernel: the turn machine, its protocols, the prompt and the collector.

import type { Mutation } from "../mutation.ts";

import { inFile } from "../mutation.ts";

export const kernelMutations: readonly Mutation[] = [
  ...inFile("lib/src/core/kernel/collector.ts", [
    {
      rows: ["allm 28"],
      defect: "an event of an unknown type is refused",
      from: "      default:\n        return ignoreNotice(event);\n",
      to: '      case "message_started":\n      case "raw_chunk":\n        return;\n      default:\n        throw new MisuseError("invalid_argument", "unknown event");\n',
    },
    {
      rows: ["allm 29"],
      defect: "a completed text is appended to its block",
      from: "      this.#openText = text;\n    } else {",
      to: "      this.#openText += text;\n    } else {",
    },
    {
      rows: ["allm 30"],
      defect: "a delta of the arguments replaces the earlier ones",
      from: ".raw += event.argumentsDelta",
      to: ".raw = event.argumentsDelta",
    },
    {
      rows: ["allm 31"],
      defect: "an error leaves the finish reason",
      from: '        this.#draft.finishReason = "error";\n',
      to: "",
    },
    {
      rows: ["allm 32"],
      defect: "the halt that came first counts",
      from: "const [halt = null] = this.#halts.toSorted(byCall);",
      to: "const halt = this.#halts[0] ?? null;",
    },
    {
      rows: ["allm 32"],
      defect: "the halt that came last counts",
      from: "const [halt = null] = this.#halts.toSorted(byCall);",
      to: "const halt = this.#halts.at(-1) ?? null;",
    },
    {
      rows: ["allm 33"],
      defect: "the text of a step is kept for the next step",
      from: "    this.#begin(new Draft());\n    this.#answers = [];",
      to: "    this.#answers = [];",
    },
    {
      rows: ["allm 34"],
      defect: "a run without its end is completed",
      from: '? { type: "cancelled", evidence: { requestId: "consumer", origin: null, reason: "the stream was left early" } }',
      to: '? { type: "assistant_message", text: "" }',
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/actions.ts", [
    {
      rows: ["lash 61"],
      defect: "the state has values that JSON changes",
      from: "results: calls.map(() => null), cell: null });",
      to: "results: calls.map(() => undefined as never), cell: null });",
    },
    {
      rows: ["lash 12"],
      defect: "actions after finish are applied",
      from: "end === -1 ? actions : actions.slice(0, end + 1)",
      to: "end === -1 ? actions : actions.slice(0)",
    },
    {
      rows: ["lash 14"],
      defect: "a protocol may return no action that starts an effect",
      from: "if (directions.length !== 1) {",
      to: "if (directions.length > 1) {",
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/reducer.ts", [
    {
      rows: ["lash 5"],
      defect: "a response without an open effect is accepted",
      from: 'if (effect === null) return { turn, notices: [], status: "stale" };',
      to: 'if (effect === null) return { turn: { ...turn, step: turn.step + 1 }, notices: [], status: "stale" };',
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/machine.ts", [
    {
      rows: ["lash 2", "lash 63"],
      defect: "open effects are delivered before notices",
      from: "    const [notice, ...later] = this.#notices;\n    if (notice !== undefined) {",
      to: "    const [notice, ...later] = this.#notices;\n    if (notice !== undefined && this.#open.length === 0) {",
    },
    {
      rows: ["lash 62"],
      defect: "a restored machine does not order its open effects again",
      from: "    return new TurnMachine(config, readCheckpoint(checkpoint));",
      to: "    const machine = new TurnMachine(config, readCheckpoint(checkpoint));\n    machine.#open = [];\n    return machine;",
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/transitions.ts", [
    {
      rows: ["lash 4"],
      defect: "a model call has no failure response",
      from: '    model_failed: { apply: modelFailed, next: ["awaiting_model", "awaiting_compaction", "ended"] },\n',
      to: "",
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/prepare.ts", [
    {
      rows: ["lash 8"],
      defect: "the environment is synced in the first step only",
      from: "if (policy.syncEnvironment && syncedStep !== step) {",
      to: "if (policy.syncEnvironment && syncedStep === null) {",
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/responses.ts", [
    {
      rows: ["lash 9"],
      defect: "a failed sync has another reason",
      from: 'runtimeFailure("reconfigure_failed", { message })',
      to: 'runtimeFailure("code_failed", { message })',
    },
    {
      rows: ["lash 15"],
      defect: "a failed model call emits no error",
      from: '  builder.emit({ type: "error", error: failure });\n  if (finalize',
      to: "  if (finalize",
    },
    {
      rows: ["lash 16"],
      defect: "a cancelled model call is a failure",
      from: 'if (terminalReason !== "cancelled") return endWithFailure',
      to: "if (terminalReason !== null) return endWithFailure",
    },
    {
      rows: ["lash 22"],
      defect: "the usage of a reply is not counted",
      from: "if (!builder.spend(spent) || !builder.spend(reply.usage)) return;",
      to: "if (!builder.spend(spent)) return;",
    },
    {
      rows: ["lash 23"],
      defect: "the usage of a failed call is not counted",
      from: "if (!builder.spend(spent) || !builder.spend(partialReply.usage)) return;",
      to: "if (!builder.spend(spent)) return;",
    },
    {
      rows: ["lash 27"],
      defect: "input after a final answer does not start another step",
      from: "    builder.nextStep(0);\n",
      to: "",
    },
    {
      rows: ["lash 40"],
      defect: "a delivery of messages that are left out counts as input",
      from: "!deliver(builder, delivery, phase.checkpoint)",
      to: "(!deliver(builder, delivery, phase.checkpoint) && delivery.messages.length === 0)",
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/transition-builder.ts", [
    {
      rows: ["lash 11"],
      defect: "progress is reported for every message",
      from: "    this.update({ history: appendHistory(this.#turn.history, messages) });",
      to: "    this.update({ history: appendHistory(this.#turn.history, messages) });\n    this.#reportProgress();",
    },
    {
      rows: ["lash 13"],
      defect: "done is reported twice",
      from: '    this.#notices.push({ type: "done", ending: end, usage, messages: [], events: [], step });',
      to: '    for (let n = 0; n < 2; n += 1) this.#notices.push({ type: "done", ending: end, usage, messages: [], events: [], step });',
    },
    {
      rows: ["lash 31"],
      defect: "calls that are open at the end of the turn are not answered",
      from: '    this.append(unaccounted.map(({ call, slot }) => this.#cancelCall(call, "the turn ended", id(slot))));',
      to: "    void [unaccounted, id];",
    },
    {
      rows: ["lash 42"],
      defect: "a cause is added again",
      from: "!seenIds.has(cause.id) && seenIds.add(cause.id)",
      to: "seenIds.add(cause.id)",
    },
    {
      rows: ["lash 68"],
      defect: "progress repeats messages that were reported",
      from: "const messages = itemsOf(history, reported);",
      to: "const messages = itemsOf(history, Math.max(0, reported - 1));",
    },
    {
      rows: ["lash 41"],
      defect: "an input message is trimmed",
      from: "else this.append([withId(message, `${this.#turn.turnId}/${place}/${index}`)]);",
      to: 'else this.append([{ ...withId(message, `${this.#turn.turnId}/${place}/${index}`), metadata: {}, name: null, id: "x" }]);',
    },
    {
      rows: ["lash 3", "lash 6", "lash 67"],
      defect: "the number of a step is random",
      from: "      step: step + 1,\n      runOffset: runOffset + free,",
      to: "      step: Math.floor(Math.random() * 1e9),\n      runOffset: runOffset + free,",
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/batch.ts", [
    {
      rows: ["lash 29"],
      defect: "results are passed in the order in which tools finish",
      from: "settle(builder, { ...phase, results: phase.results.with(index, result) });",
      to: "settle(builder, { ...phase, results: phase.results.with(phase.results.indexOf(null), result) });",
    },
    {
      rows: ["lash 32"],
      defect: "the protocol receives results before all calls are answered",
      from: "  if (phase.results.includes(null)) return;\n",
      to: "  if (phase.results.every((result) => result === null)) return;\n",
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/deliver.ts", [
    {
      rows: ["lash 39"],
      defect: "a message of any role is delivered",
      from: '(message.role === "user" || message.role === "system") && isShown(message)',
      to: "message !== null",
    },
  ]),
  ...inFile("lib/src/core/kernel/machine/cells.ts", [
    {
      rows: ["lash 46"],
      defect: "the driver state of a cell is lost",
      from: "handleExecResult(builder.view, result, calls, driverState)",
      to: "handleExecResult(builder.view, result, calls, null)",
    },
  ]),
  ...inFile("lib/src/core/kernel/protocol/chat-protocol.ts", [
    {
      rows: ["allm 62"],
      defect: "a reply with an unknown finish reason causes another call",
      from: 'if (reply.finishReason === "paused")',
      to: 'if (reply.finishReason === "paused" || reply.finishReason === "other")',
    },
    {
      rows: ["lash 18"],
      defect: "the calls of a truncated reply run",
      from: 'if (reply.finishReason === "tool_calls" && message.toolCalls.length > 0) {',
      to: "if (message.toolCalls.length > 0) {",
    },
    {
      rows: ["lash 25", "lash 38"],
      defect: "a final answer ends the turn without a checkpoint",
      from: "options.stopAfter === null ? complete(outcome) : finish(outcome)",
      to: "finish(outcome)",
    },
    {
      rows: ["lash 26"],
      defect: "the final answer is not in the history",
      from: "  return [append, appendUnrun, step, options.stopAfter",
      to: "  return [appendUnrun, step, options.stopAfter",
    },
    {
      rows: ["lash 34"],
      defect: "an empty answer after a tool result is an error",
      from: '&& context.lastMessage?.role !== "tool") {',
      to: ") {",
    },
    {
      rows: ["lash 37"],
      defect: "the halt of the last call counts",
      from: "const halt = completed.map(haltOf).find((outcome) => outcome !== null) ?? null;",
      to: "const halt = completed.map(haltOf).findLast((outcome) => outcome !== null) ?? null;",
    },
    {
      rows: ["lash 66"],
      defect: "a step with tools ends without its answers",
      from: '  return [{ type: "append_events", messages: answers }, ...afterTools(options, context, completed, answers)];',
      to: "  return afterTools(options, context, completed, answers);",
    },
  ]),
  ...inFile("lib/src/core/kernel/protocol/shared-actions.ts", [
    {
      rows: ["lash 28"],
      defect: "tool results are followed by another checkpoint",
      from: '      checkpoint: "after_work",',
      to: '      checkpoint: "before_completion",',
    },
    {
      rows: ["lash 44"],
      defect: "maxTurns is not checked after tools",
      from: "!free && context.isLastIteration",
      to: "free && context.isLastIteration",
    },
  ]),
  ...inFile("lib/src/core/kernel/protocol/ending.ts", [
    {
      rows: ["lash 17"],
      defect: "a truncated reply is a complete one",
      from: '      return { type: "incomplete" };',
      to: '      return { type: "assistant_message", text };',
    },
  ]),
  ...inFile("lib/src/core/kernel/protocol/reply-text.ts", [
    {
      rows: ["lash 19"],
      defect: "the context window is full at 96 percent",
      from: "(maxContextTokens * 95) / 100",
      to: "(maxContextTokens * 96) / 100",
    },
    {
      rows: ["lash 36"],
      defect: "commentary is kept beside a final answer",
      from: "  if (!parts.some(isFinalAnswer)) return parts;\n",
      to: "  if (parts.length > 0) return parts;\n",
    },
  ]),
  ...inFile("lib/src/core/kernel/protocol/reply-message.ts", [
    {
      rows: ["lash 30"],
      defect: "the parts of a reply are reordered",
      from: "withoutCommentary(message.content);",
      to: "withoutCommentary(message.content).toReversed();",
    },
  ]),
  ...inFile("lib/src/core/kernel/protocol/resume-safety.ts", [
    {
      rows: ["lash 53"],
      defect: "a history with an open call may be resumed",
      from: "return open.size === 0;",
      to: "return open.size >= 0;",
    },
  ]),
  ...inFile("lib/src/core/kernel/retry-delay.ts", [
    {
      rows: ["lash 57"],
      defect: "the delay does not grow",
      from: "schedule.baseDelayMs * 2 ** retryIndex",
      to: "schedule.baseDelayMs",
    },
  ]),
  ...inFile("lib/src/core/kernel/history/turn-cause.ts", [
    {
      rows: ["lash 43"],
      defect: "an origin is rendered without the id of its turn",
      from: "`turn input on turn ${origin.turnId}`",
      to: '"turn input"',
    },
  ]),
  ...inFile("lib/src/core/kernel/history/projector.ts", [
    {
      rows: ["lash 7"],
      defect: "a request is computed without the history of the state",
      from: "      ...conversation,\n",
      to: "",
    },
    {
      rows: ["lash 64"],
      defect: "the instructions of the configuration replace those of the environment",
      from: "    const { environment } = turn;\n",
      to: "    const environment = { ...turn.environment, instructions: config.systemPrompt };\n",
    },
    {
      rows: ["lash 47"],
      defect: "a request without tools lets the model choose",
      from: '...(useTools ? {} : { toolChoice: "none" }),',
      to: "",
    },
    {
      rows: ["lash 10", "lash 48"],
      defect: "the projector of the configuration is not used",
      from: "const projected = projector.project({ config, turn, useTools, overrides });",
      to: "const projected = ChatContextProjector.project({ config: config as never, turn: turn as never, useTools, overrides });",
    },
  ]),
  ...inFile("lib/src/core/kernel/history/prompt.ts", [
    {
      rows: ["lash 50"],
      defect: "reasoning without provider data is sent",
      from: 'return part.type !== "reasoning" || part.provider !== null;',
      to: "return true;",
    },
    {
      rows: ["lash 52"],
      defect: "a note of the runtime has no prefix",
      from: "system(`Runtime note:\\n${text}`,",
      to: "system(`${text}`,",
    },
  ]),
];
