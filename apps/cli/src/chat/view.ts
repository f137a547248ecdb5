// The view of one turn: converts events to text to print and to live rows (spinner, running tools). Pure: it reads no
// clock and writes to no terminal. Output is append-only: when a step is reset, a note tells the user to ignore the
// text above.

import type { Colours, Style } from "../terminal/style.ts";
import type { RunningTool } from "./tool-lines.ts";
import type { Failure, TurnEvent } from "everturn";
import type { TurnChange } from "everturn/advanced";
import type { RuntimeEvent } from "everturn/runtime";

import { messageText } from "everturn";
import { TurnView } from "everturn/advanced";

import { brief, duration, plural, spent } from "../commands/text.ts";
import { fit } from "../terminal/cells.ts";
import { wrapRuns } from "../terminal/flow.ts";
import { MarkdownStream } from "../terminal/markdown.ts";
import { safeText } from "../terminal/safe-text.ts";
import { spinner } from "../terminal/spinner.ts";
import { plain } from "../terminal/style.ts";
import { endingText } from "./ending.ts";
import { doneLine, runningLines } from "./tool-lines.ts";

export type ViewOptions = {
  readonly width: () => number;
  readonly colours: Colours;
  /** When the turn was started or attached to, in milliseconds of the clock. */
  readonly since: number;
};

/** The kind of the last printed block. An empty line separates blocks of different kinds. */
type Block = "input" | "text" | "reasoning" | "tool" | "note";

type CompactionEnded = Extract<TurnEvent, { readonly type: "compaction_ended" }>;
type StepReset = Extract<TurnEvent, { readonly type: "step_reset" }>;

type OpenBlock = { readonly kind: "text" | "reasoning"; readonly part: string; readonly stream: MarkdownStream };

export class ChatView {
  readonly #options: ViewOptions;
  #last: Block = "input";
  #open: OpenBlock | null = null;
  readonly #turn = new TurnView();
  /** Whether output of the current step was printed, which a reset makes invalid. */
  #isStepShown = false;
  /** When the handlers that run were started, by call id. */
  readonly #running = new Map<string, number>();
  /** Ids of calls whose result was printed. */
  readonly #answered = new Set<string>();
  /** Names of calls that the model is writing, by id. */
  readonly #incoming = new Map<string, string>();
  /** Failures that were printed. */
  readonly #shownFailures = new Set<string>();
  /** Warnings that were printed. Every model call of a turn repeats those about its settings. */
  readonly #shownWarnings = new Set<string>();
  #steps = 0;
  /** When the last output was printed. */
  #quietSince: number;
  #state: "running" | "cancelling" | "over" = "running";

  constructor(options: ViewOptions) {
    this.#options = options;
    this.#quietSince = options.since;
  }

  get isOver(): boolean {
    return this.#state === "over";
  }

  /** The user requested a cancel. */
  cancelling(): void {
    if (this.#state === "running") this.#state = "cancelling";
  }

  /** Returns the text to print for an event. */
  apply(runtimeEvent: RuntimeEvent, now: number): string {
    const { event } = runtimeEvent;
    const reply = this.#turn.add(runtimeEvent).reduce((printed, change) => printed + this.#changed(change), "");
    const text = reply + this.#applied(event, now);
    if (text !== "" || event.type === "message_started") this.#quietSince = now;
    return text;
  }

  /** Returns the live rows below the text. */
  live(now: number): readonly string[] {
    if (this.#state === "over" || this.#open !== null) return [];
    // An empty row, as between text and the lines of completed tools.
    return [...(this.#last === "tool" ? [] : [""]), ...this.#runningRows(now)];
  }

  #runningRows(now: number): readonly string[] {
    const { colours } = this.#options;
    const width = this.#options.width();
    const waitRow = (what: string): string => {
      const time = colours.dim(duration(Math.max(0, now - this.#quietSince)));
      return fit(`${colours.cyan(spinner(now))} ${what} ${time}`, width - 1);
    };
    const cancels = this.#state === "cancelling" ? [waitRow("cancelling")] : [];
    const tools = [...this.#running].flatMap(([id, startedAt]): readonly RunningTool[] => {
      const call = this.#turn.call(id);
      return call === undefined ? [] : [{ ...call, arguments: call.arguments ?? {}, startedAt }];
    });
    if (tools.length > 0) return [...runningLines(tools, now, width, colours), ...cancels];
    if (cancels.length > 0) return cancels;
    const callNames = [...new Set(this.#incoming.values())].map((name) => brief(name, 30));
    return [waitRow(callNames.length > 0 ? `writing a call of ${callNames.join(", ")}` : "thinking")];
  }

  /** A note of the chat, as a block. */
  note(text: string, style: Style = plain): string {
    const options = { width: this.#options.width(), colours: this.#options.colours.enabled };
    return this.#block("note", `${wrapRuns([{ text, style }], options)}\n`);
  }

  /** Ends the open block. */
  close(): string {
    const open = this.#open;
    this.#open = null;
    return open === null ? "" : open.stream.end();
  }

  /**
   * The text to print for what changed in the open reply. A reply without deltas, for example of another process, is
   * printed completely.
   */
  #changed(change: TurnChange): string {
    switch (change.type) {
      case "text":
      case "reasoning":
        return this.#say(change.type, change.part, change.delta);
      case "call_started":
        this.#incoming.set(change.id, change.name);
        return this.close();
      case "reply":
      case "discarded":
        this.#incoming.clear();
        return change.type === "reply" ? this.close() : "";
      case "arguments":
      case "call":
      case "part":
      case "call_changed":
        return "";
    }
  }

  #applied(event: TurnEvent, now: number): string {
    const { colours } = this.#options;
    switch (event.type) {
      case "message_started":
        return this.close();
      case "tool_call_completed":
        if (!event.providerExecuted) return "";
        this.#incoming.delete(event.id);
        return this.#tool(`${colours.green("✓")} ${brief(event.name)} ${colours.dim("run by the provider")}`);
      case "tool_execution_started":
        this.#running.set(event.id, now);
        return this.close();
      case "tool_execution_completed": {
        const startedAt = this.#running.get(event.id);
        const since = startedAt === undefined ? null : now - startedAt;
        this.#running.delete(event.id);
        this.#answered.add(event.id);
        const done = {
          name: event.name,
          arguments: this.#turn.call(event.id)?.arguments ?? {},
          outcome: event.result,
          durationMs: event.durationMs ?? since,
        };
        return this.#tool(doneLine(done, this.#options.width(), colours));
      }
      case "tool_result_encoded": {
        this.#running.delete(event.id);
        if (this.#answered.has(event.id)) return "";
        this.#answered.add(event.id);
        const name = this.#turn.call(event.id)?.name || "tool";
        const isFine = event.status === "success";
        const word = isFine ? "" : ` ${colours.dim((event.code ?? event.status).replaceAll("_", " "))}`;
        return this.#tool(`${isFine ? colours.green("✓") : colours.red("✗")} ${colours.bold(brief(name))}${word}`);
      }
      case "tool_halt":
        this.#running.delete(event.toolCallId);
        return "";
      case "input_accepted": {
        // The first input of a turn was typed here and is already on the screen.
        if (event.checkpoint === null) return "";
        const inputs = event.inputs.map(({ message }) => `› ${safeText(messageText(message))}`).join("\n");
        return this.note(`${inputs}\n  (received by the turn)`, { dim: true });
      }
      case "retry_scheduled": {
        const { attempt, maxAttempts, delayMs, error } = event;
        const next = attempt === null ? "" : ` (${attempt.n + 1}${maxAttempts === null ? "" : ` of ${maxAttempts}`})`;
        const text = `↻ ${failureText(error)}; retry in ${duration(delayMs)}${next}`;
        return this.note(text, { hue: "yellow" });
      }
      case "compaction_started":
        return this.note(`⋯ shortening the conversation: ${event.to - event.from} older messages`, { dim: true });
      case "compaction_ended":
        return this.note(`  ${compactionText(event)}`, { dim: true });
      case "step_reset":
        return this.#reset(event);
      case "step_completed":
        this.#steps += 1;
        this.#isStepShown = false;
        return "";
      case "error":
        return this.failure(event.error);
      case "warning":
        return this.#warning(event.warning.message);
      case "chat_completed": {
        const { outcome, usage } = event.result;
        this.#running.clear();
        const endText = "failure" in outcome ? this.failure(outcome.failure) : this.#ending(endingText(outcome));
        this.#state = "over";
        const facts = [
          this.#steps === 0 ? "" : plural(this.#steps, "step"),
          spent(usage),
          duration(now - this.#options.since),
        ];
        return this.close() + endText + this.note(facts.filter((fact) => fact !== "").join(" · "), { dim: true });
      }
      default:
        return "";
    }
  }

  /** Prints a failure; the same failure only once. */
  failure(failure: Failure): string {
    const text = failureText(failure);
    if (this.#shownFailures.has(text)) return "";
    this.#shownFailures.add(text);
    return this.note(`✗ ${text}`, { hue: "red" });
  }

  /** Prints a warning; the same warning only once. */
  #warning(text: string): string {
    if (this.#shownWarnings.has(text)) return "";
    this.#shownWarnings.add(text);
    return this.note(`! ${safeText(text)}`, { dim: true });
  }

  #ending(text: string): string {
    return text === "" ? "" : this.note(`■ ${text}`, { hue: "yellow" });
  }

  #say(kind: "text" | "reasoning", part: string, delta: string): string {
    let closed = "";
    let open = this.#open;
    if (open === null || open.kind !== kind || open.part !== part) {
      // Blank text opens no block.
      if (delta.trim() === "") return "";
      closed = this.close();
      const { colours } = this.#options;
      const base = kind === "reasoning" ? ({ dim: true, italic: true } as const) : {};
      open = {
        kind,
        part,
        stream: new MarkdownStream({ width: this.#options.width(), colours: colours.enabled, base }),
      };
      this.#open = open;
      closed += this.#gapBefore(kind);
      this.#last = kind;
    }
    this.#isStepShown = true;
    return closed + open.stream.push(delta);
  }

  #reset({ reason }: StepReset): string {
    this.#running.clear();
    const wasShown = this.#isStepShown;
    this.#isStepShown = false;
    const what = wasShown ? "Ignore the text above: " : "";
    return this.note(`⟲ ${what}${resetReasons[reason]}. The step starts again.`, { hue: "yellow" });
  }

  #tool(line: string): string {
    if (line === "") return this.close();
    this.#isStepShown = true;
    return this.#block("tool", `${line}\n`);
  }

  #block(kind: Block, text: string): string {
    const closed = this.close();
    const gap = this.#gapBefore(kind);
    this.#last = kind;
    return closed + gap + text;
  }

  #gapBefore(kind: Block): string {
    return this.#last === kind && (kind === "tool" || kind === "note") ? "" : "\n";
  }
}

const resetReasons: { readonly [R in StepReset["reason"]]: string } = {
  retry: "the model call failed",
  fallback: "the model failed, and the fallback model is called",
  recovery: "the process that ran the step stopped",
  restart: "the step was restarted",
};

/** The message of a failure, or its reason in words. */
function failureText(failure: Failure): string {
  return safeText(failure.message === "" ? failure.reason.replaceAll("_", " ") : failure.message);
}

/** What a compaction did, in words. */
export function compactionText({ status, from, to }: CompactionEnded): string {
  switch (status) {
    case "summarized":
      return `the model reads a summary in place of ${to - from} messages`;
    case "left_out":
      return `no summary was written; the model no longer reads ${to - from} messages`;
    case "failed":
      return "no summary was written; old tool results are shortened instead";
  }
}
